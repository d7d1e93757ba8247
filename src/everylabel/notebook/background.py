"""The server of the page on a thread of this process; no signal is touched, nothing is left behind."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from everylabel.core.errors import EverylabelError
from everylabel.projects.project import Project
from everylabel.web.server import ServeOptions, opened_server


class Background:
    """A project that is served until it is stopped; what is wrong with it is raised here, before it is."""

    def __init__(self, project: Project, options: ServeOptions, note: Callable[[str], Any]) -> None:
        self._stack, self._started = ExitStack(), threading.Event()
        self._failed: BaseException | None = None  # why it did not start
        self._thread = threading.Thread(target=self._serve, name="everylabel", daemon=True)
        try:
            opening = opened_server(project, options, lambda _: self._started.set(), note, None)
            self.opened = self._stack.enter_context(opening)
            self._thread.start()
            while not self._started.wait(0.05):
                if not self._thread.is_alive():
                    why = "what it logged says why" if self._failed is None else repr(self._failed)
                    raise EverylabelError(f"the server did not start: {why}") from self._failed
        except BaseException:
            self.close()
            raise

    def _serve(self) -> None:
        # with a loop of its own: notebooks have one that runs, and often a changed asyncio.run
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self.opened.server.serve(sockets=[self.opened.bound]))
        except BaseException as error:
            if self._started.is_set():
                raise
            self._failed = error
        finally:
            loop.close()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def end_serving(self) -> None:
        """Take no more requests, once those that are open are answered."""
        if self._thread.is_alive():
            self.opened.server.should_exit = True
            self._thread.join()

    def close(self) -> None:
        """Stop, and close the project."""
        self.end_serving()
        self._stack.close()

"""The web application of a project, and `serve`, which runs it from start to a clean stop."""

import contextlib
import errno
import gc
import os
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp
from threadpoolctl import threadpool_limits

from everylabel.core.errors import EverylabelError
from everylabel.labelling.model.retrainer import Retrainer, saved_mean
from everylabel.labelling.service import Service
from everylabel.projects.arrivals import Watched
from everylabel.projects.features import Progress
from everylabel.projects.folder import log_mark
from everylabel.projects.log import class_names_of, open_log
from everylabel.projects.network import opened_desk
from everylabel.projects.options import LabelOptions, check_port
from everylabel.projects.project import Project
from everylabel.web.access import (
    LINK,
    PROBLEMS,
    Access,
    Stopping,
    Tokens,
    answer_errors,
    is_local,
    tokens_of,
)
from everylabel.web.arrivals import Arrivals
from everylabel.web.downloads import Downloads
from everylabel.web.item_view import (
    ItemView,
    allowed_images,
    check_fields,
    keep_guidelines,
    read_guidelines,
    rendered,
)
from everylabel.web.routes.answers import changing
from everylabel.web.routes.reading import reading

Say = Callable[[str], Any]
DESCRIPTION = "The HTTP API and the page, over a service; its description is at /openapi.json."
PAGE = Path(__file__).parent / "page"
MOST_CONNECTIONS = 1000  # at the same time; further requests get 503
PORTS = 20  # number of ports to try, from the default on
PATIENCE = 3  # seconds for open requests to finish when the server stops


class Opened(NamedTuple):
    """An opened project with a bound port and a server that does not run yet."""

    service: Service
    shown: ItemView
    address: str
    server: "Server"
    bound: socket.socket


def serve(
    project: Project,
    options: LabelOptions,
    ready: Say = print,
    note: Say = print,
    progress: Progress | None = None,
) -> None:
    """Serve a project until the process is asked to stop; `ready` receives the page's address.

    `note` receives messages for the user: a changed source, imported labels. `progress` receives the number
    of embedded items and their total while embedding continues in the background.
    """
    with one_thread(), opened_server(project, options, ready, note, progress) as opened:
        gc.collect()
        gc.freeze()  # or a full collection stops all threads for 80 ms, once in about a hundred labels
        opened.server.run(sockets=[opened.bound])


@contextlib.contextmanager
def opened_server(
    project: Project, options: LabelOptions, ready: Say, note: Say, progress: Progress | None
) -> Iterator[Opened]:
    """Yield a project's server, ready to run, and close everything afterwards; see `serve`."""
    guidelines = read_guidelines(project.folder, options.guidelines)
    local = is_local(options.host) and not options.proxy  # a proxy forwards requests of other machines
    tokens = tokens_of(options.token, options.look_token, options.token_file, local)
    with (
        bound_socket(options.host, options.port) as bound,
        opened_project(project, options, note, progress) as (service, shown, arrivals),
    ):
        if options.guidelines is not None:
            keep_guidelines(project.folder, guidelines)
        files = Downloads(shown, service.desk, options.layout)
        html, framed = rendered(guidelines), options.framed and local
        app = make_app(service, shown, files, arrivals, tokens=tokens, guidelines=html, framed=framed)
        address = address_of(options.host, bound.getsockname()[1], None if tokens is None else tokens.labels)
        config = server_config(app, options.proxy)

        def started() -> None:
            service.desk.log.note_address(address.partition("?")[0])
            ready(address)
            if options.browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            arrivals.start()

        yield Opened(service, shown, address, Server(config, started), bound)


def make_app(
    service: Service,
    shown: ItemView,
    files: Downloads,
    arrivals: Arrivals | None,
    *,
    tokens: Tokens | None = None,
    guidelines: str = "",
    framed: bool = False,
) -> FastAPI:
    """Return the web application of one project.

    arrivals : accepts texts that other programs send; None if another program owns the items
    guidelines : HTML from `item_view.rendered`
    framed : notebooks of this machine may show the page in a frame
    """
    project = shown.project
    app = FastAPI(
        title="everylabel",
        version="1",
        docs_url=None,
        redoc_url=None,
        description=DESCRIPTION,
        responses=PROBLEMS,
    )
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    app.add_middleware(Access, tokens=tokens, framed=framed)  # outermost: checks before all else
    answer_errors(app)
    about = {"project": project.name, "project_id": project.id or project.name, "kind": project.kind}
    about["guidelines"] = guidelines
    app.include_router(changing(service, arrivals, asks=tokens is not None))
    app.include_router(reading(service.views, shown, files, about))
    app.mount("/static", StaticFiles(directory=PAGE), name="static")

    @app.get("/", include_in_schema=False)
    @app.get(f"{LINK}{{name:path}}", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    return app


def server_config(app: ASGIApp, proxy: bool = False) -> uvicorn.Config:
    """Return the server's configuration; `proxy` trusts X-Forwarded-For.

    Slow headers, slow bodies and clients that do not read are left to a reverse proxy.
    """
    return uvicorn.Config(
        Stopping(app),
        http="h11",  # limits the size of headers
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=proxy,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=PATIENCE,
    )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread until the block is left.

    Threads that wait for each other are slower on a busy machine: at 100,000 x 384 on two busy cores a label
    took 56 ms on one thread in place of 134, and the other core is free for training in the background.
    """
    name = "OMP_NUM_THREADS"  # read by the compiled loops
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        with threadpool_limits(1):
            yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextlib.contextmanager
def opened_project(
    project: Project, options: LabelOptions, note: Say, progress: Progress | None
) -> Iterator[tuple[Service, ItemView, Arrivals]]:
    """Yield a project's service, items and arrivals with an up-to-date log; close everything afterwards."""
    columns = options.columns(project)
    check_fields(project, columns)
    allowed = allowed_images(project, options.images_in)
    names, mean_path = class_names_of(project), project.folder / "model.mean.npz"
    opening = open_log(project, options, note, names)
    with opening as (store, project, state):
        project = replace(project, about=project.about.with_log(options.store, log_mark(store)))
        project.keep()  # nothing was refused: store these options
        if len(state.classes) < 2:
            there = "one class" if state.classes else "no class"
            note(f"there is {there} yet: add classes on the page, or by --classes")
        rows = options.rows(project)
        desk, network = opened_desk(project, rows, store, state, names, saved_mean(mean_path), note)
        project = project.without_features()
        shown = ItemView(project, columns, allowed, state.hidden_columns)
        network.content = shown.content
        service = Service(desk, shown.item)
        watched = Watched(project.source, project.options) if options.watch else None
        arrivals = Arrivals(desk, shown, note, options.test, watched, progress)
        service.views.arriving, service.views.network = arrivals.state, network.state
        network.is_growing = lambda: arrivals.state.coming > 0
        closed = contextlib.closing
        with (
            closed(rows),
            closed(desk),
            closed(Retrainer(desk, mean_path)),
            closed(service),
            closed(arrivals),
            closed(network),
        ):
            network.start()
            yield service, shown, arrivals


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens, so that no other program can take its port; clients wait."""
    port = check_port(port)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named TCP: otherwise asyncio does not switch off Nagle's delay, and a reply takes 40 ms longer
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), port))
        bound.listen()
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            other = f"another program, maybe an everylabel that runs ({address_of(host, port, None)})"
            advice = "stop that one, or --port 0 takes any"
            raise EverylabelError(
                f"--port {port} of --host {host} is in use by {other}; expected a free port: {advice}"
            ) from error
        raise EverylabelError(
            f"--host {host} and --port {port} cannot be used ({error.strerror}); expected an address of this "
            "machine and a free port: --port 0 takes any"
        ) from error
    return bound


def free_port(host: str, first: int) -> int:
    """Return the first free port from `first` on."""
    for port in range(first, first + PORTS):
        try:
            check_free(host, port)
        except EverylabelError:
            continue
        return port
    return first  # binding it then fails with the reason


def check_free(host: str, port: int) -> None:
    """Refuse a port that cannot be used, before any slow work."""
    bound_socket(host, port).close()


def address_of(host: str, port: int, token: str | None) -> str:
    """Return the URL of a server, including its token if it has one."""
    name = socket.gethostname() if host in ("0.0.0.0", "::", "") else host
    name = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


class Server(uvicorn.Server):
    """A server that calls `ready` once it is up, and exits normally on a stop signal."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop, or stop at once if asked again; uvicorn's own would send the signal on to the process."""
        os.write(2, b"stopping ...\n")  # unbuffered, and safe in a signal handler
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

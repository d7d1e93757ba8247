"""`serve_label_studio`: serve projects of Label Studio until the process is stopped.

The backend registers itself with Label Studio: as the model of a project, by a webhook, and in the order of
tasks. Our own page of a project has another port.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from everylabel.label_studio.api import Api, ApiError, Json
from everylabel.label_studio.backend import USER, authorization, make_backend, password_of
from everylabel.label_studio.connected import BackendOptions, Connected, connect
from everylabel.projects.features import Progress
from everylabel.web.access import is_local, tokens_of
from everylabel.web.downloads import Downloads
from everylabel.web.server import (
    Server,
    address_of,
    bound_socket,
    make_app,
    one_thread,
    server_config,
)

Say = Callable[[str], Any]
TITLE = "everylabel"
SAMPLING = "Uncertainty sampling"


def serve_label_studio(
    options: BackendOptions, ready: Say = print, note: Say = print, progress: Progress | None = None
) -> None:
    """Serve projects until the process is asked to stop; `ready` gets the backend's address."""
    api = Api(options.url, options.token)
    local = is_local(options.host)
    password = None if local else password_of(options.token)
    with one_thread(), bound_socket(options.host, options.port) as bound, ExitStack() as stack:
        projects = {
            number: stack.enter_context(connect(api, number, options, note, progress))
            for number in dict.fromkeys(options.project)
        }
        address = options.address or address_of(options.host, bound.getsockname()[1], None)
        for at, (number, each) in enumerate(projects.items()):
            if options.page:
                say = partial(_say_page, note, number)
                port = options.page_port + at if options.page_port else 0
                token = password_of(options.token, f"page {number}")  # the same at every start
                stack.enter_context(page_of(each, options.host, port, token, say))

        def started() -> None:
            ready(address)
            for each in projects.values():
                each.start()
            if options.register:
                work = partial(_register, api, projects, address, password, note)
                threading.Thread(target=work, name="register", daemon=True).start()

        Server(server_config(make_backend(projects, password)), started).run(sockets=[bound])


def _say_page(note: Say, number: int, address: str) -> None:
    note(f"project {number} on everylabel's page: {address}")


def _register(
    api: Api, projects: dict[int, Connected], address: str, password: str | None, note: Say
) -> None:
    """Register with Label Studio, which calls the backend at once: the server must be running.

    Predictions follow afterwards: connecting a model may overwrite the project's model version.
    """
    for number, project in projects.items():
        try:
            done = register(api, number, address, password)
        except ApiError as error:
            note(
                f"project {number} could not be connected: {error}; add {address} by hand under Settings, "
                "Model, or start again (on one machine, Label Studio must run with ML_BLOCK_LOCAL_IP=false "
                "and SSRF_PROTECTION_ENABLED=false)"
            )
        else:
            if done:
                note(f"project {number} of Label Studio: {'; '.join(done)}")
        project.renewal.start()


@contextmanager
def page_of(
    project: Connected, host: str, port: int, token: str, ready: Callable[[str], Any]
) -> Iterator[None]:
    """Serve the page of a project inside a with block; `ready` gets its address.

    token : needed unless host is a loopback address
    """
    tokens = None if is_local(host) else tokens_of(token, None, None, False)
    files = Downloads(project.shown, project.service.desk, "pca")
    app = make_app(project.service, project.shown, files, None, tokens=tokens)
    with bound_socket(host, port) as bound:
        address = address_of(host, bound.getsockname()[1], None if tokens is None else tokens.labels)
        server = Server(server_config(app), lambda: ready(address))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="page", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()


def register(api: Api, project: int, address: str, password: str | None = None) -> list[str]:
    """Register the backend at an address where it is not yet; return the changes, in words.

    password : sent by Label Studio with each request, if given
    """
    address, done = address.rstrip("/"), list[str]()
    hook: Json = {
        "url": f"{address}/webhook",
        "send_payload": True,
        "send_for_all_actions": True,
        "is_active": True,
    }
    hook["headers"] = {} if password is None else {"Authorization": authorization(password)}
    known = next(
        (each for each in api.get("/api/webhooks/", project=project) if each.get("url") == hook["url"]), None
    )
    if known is None:  # before the backend: Label Studio adds one without a password otherwise
        api.send("POST", "/api/webhooks/", {**hook, "project": project})
        done.append("webhook added")
    elif any(known.get(name) != value for name, value in hook.items()):
        api.send("PATCH", f"/api/webhooks/{known['id']}/", hook)
        done.append("webhook renewed")
    if not any(
        str(each.get("url", "")).rstrip("/") == address for each in api.get("/api/ml/", project=project)
    ):
        model: Json = {"project": project, "url": address, "title": TITLE}
        if password is not None:
            model |= {"auth_method": "BASIC_AUTH", "basic_auth_user": USER, "basic_auth_pass": password}
        api.send("POST", "/api/ml/", model)
        done.append("model connected")
    if api.project(project).get("sampling") != SAMPLING:
        api.send("PATCH", f"/api/projects/{project}/", {"sampling": SAMPLING})
        done.append("tasks are shown by uncertainty sampling")
    return done

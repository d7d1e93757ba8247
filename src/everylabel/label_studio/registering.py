"""Telling Label Studio of the backend: a model of the project, its webhook, and the order of tasks."""

from everylabel.label_studio.access import USER, authorization
from everylabel.label_studio.api import Api, Json

TITLE = "everylabel"
SAMPLING = "Uncertainty sampling"


def register(api: Api, project: int, address: str, password: str | None = None) -> list[str]:
    """Register what serves at an address, as far as it is not yet; return what was changed, in words.

    password : what Label Studio proves itself by, if that is asked
    """
    address, done = address.rstrip("/"), list[str]()
    hook: Json = {
        "url": f"{address}/webhook",
        "send_payload": True,
        "send_for_all_actions": True,
        "is_active": True,
    }
    hook["headers"] = {} if password is None else {"Authorization": authorization(password)}
    known = next((each for each in api.webhooks(project) if each.get("url") == hook["url"]), None)
    if known is None:  # before the backend: Label Studio adds one without a password otherwise
        api.send("POST", "/api/webhooks/", {**hook, "project": project})
        done.append("webhook added")
    elif any(known.get(name) != value for name, value in hook.items()):
        api.send("PATCH", f"/api/webhooks/{known['id']}/", hook)
        done.append("webhook renewed")
    if not any(str(each.get("url", "")).rstrip("/") == address for each in api.backends(project)):
        model: Json = {"project": project, "url": address, "title": TITLE}
        if password is not None:
            model |= {"auth_method": "BASIC_AUTH", "basic_auth_user": USER, "basic_auth_pass": password}
        api.send("POST", "/api/ml/", model)
        done.append("model connected")
    if api.project(project).get("sampling") != SAMPLING:
        api.change_project(project, sampling=SAMPLING)
        done.append("tasks are shown by uncertainty sampling")
    return done

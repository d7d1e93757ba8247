"""Letting the model finish."""

from asyncio import wrap_future
from typing import Annotated, Any

from fastapi import APIRouter, Query

from everylabel.labelling.finish import Finishing
from everylabel.labelling.views import Views
from everylabel.web.bodies import FinishBody, PersonBody
from everylabel.web.errors import problems

Rate = Annotated[float, Query(ge=0.001, le=0.5)]
Confidence = Annotated[float, Query(ge=0.5, le=0.999)]


def finishing(views: Views) -> APIRouter:
    """Return the endpoints of a project's views."""
    router, asked = APIRouter(prefix="/api/finish"), Finishing(views)

    @router.get("", responses=problems())
    async def preview(rate: Rate = 0.02, confidence: Confidence = 0.95) -> dict[str, Any]:
        """Return from which probability on the model may label, and how many that are."""
        return await wrap_future(asked.preview(rate, confidence))

    @router.post("", responses=problems(409))
    async def finish(body: FinishBody) -> dict[str, Any]:
        """Have the model label all that it is sure enough of."""
        return await wrap_future(asked.finish(body.person, body.rate, body.confidence, body.audit))

    @router.post("/undo", responses=problems())
    async def take_back(body: PersonBody) -> dict[str, Any]:
        """Take back all that the model has labelled."""
        return await wrap_future(asked.take_back(body.person))

    return router

"""The base of the generated models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """What the daemon answers with. Fields that this version does not know are kept in ``model_extra``."""

    model_config = ConfigDict(defer_build=True, populate_by_name=True, extra="allow", protected_namespaces=())

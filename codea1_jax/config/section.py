from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, field_validator


class Section(BaseModel):
    """A frozen part of the configuration in which unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: Any, info: Any) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise ValueError(f"{value} is a boolean (as are yes, no, on and off); quote it if it is text")
        return value

"""The replies of the board, as far as a worker reads them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """Strict in what is used and blind to the rest, so that the board may add fields."""

    model_config = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


class Written(Shape):
    pass


class HeldTask(Shape):
    task_id: int
    claim_id: str


class Limits(Shape):
    lease_seconds: int | None = None


class WhoAmI(Shape):
    name: str
    role: str
    limits: Limits = Limits()
    tasks: list[HeldTask] = []


class ClaimedTask(Shape):
    title: str
    description: str | None = None
    acceptance_criteria: str | None = None
    lease_seconds: int | None = None
    failures: int | None = None


class DependencyResult(Shape):
    task_id: int
    title: str
    result: str | None = None
    length: int | None = None


class EarlierResult(Shape):
    result: str | None = None
    note: str | None = None
    length: int | None = None


class ClaimAnswer(Shape):
    task: ClaimedTask | None
    task_id: int | None = None
    claim_id: str | None = None
    dependencies: list[DependencyResult] = []
    earlier: list[EarlierResult] = []


class Renewed(Shape):
    status: str
    changed: bool = False


class TaskFields(Shape):
    status: str
    assignee: str | None = None
    result: str | None = None
    lease_seconds: int | None = None


class WholeTask(Shape):
    task: TaskFields

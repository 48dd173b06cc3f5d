"""Requests and answers as JSON has them, with examples: the schemas of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, JsonValue

__all__ = [
    "NAME",
    "Changed",
    "CheckRequest",
    "Checked",
    "Count",
    "CountRequest",
    "CreateRequest",
    "EmbedAnswer",
    "FieldsRequest",
    "Freed",
    "GetRequest",
    "HealthAnswer",
    "Ids",
    "IdsRequest",
    "IngestRequest",
    "ItemsAnswer",
    "LabelsRequest",
    "MapAnswer",
    "ProblemDetails",
    "RadiusAnswer",
    "RadiusRequest",
    "Recoded",
    "RefreshRequest",
    "RemoveRequest",
    "Removed",
    "SearchAnswer",
    "SearchRequest",
    "StatsAnswer",
    "Status",
    "Stored",
    "SuggestionsAnswer",
    "TableInfo",
    "Tables",
    "TeachingAnswer",
]

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class _Stop(FailFast):
    """At the first error of a list: a body may hold millions, and each would take a kilobyte."""

    __hash__ = object.__hash__  # types in a union are hashed, with what they are annotated with


STOP = _Stop()

Id = int | str
IdList = Annotated[list[Id], STOP]
Row = Annotated[list[Annotated[int, Field(ge=0, le=1)]], STOP]
Label = bool | int | float | str | Row | None
LabelList = Annotated[list[Label], STOP]
Vectors = Annotated[
    list[Annotated[list[float], STOP]],
    STOP,
    Field(description="One list of numbers per item or query."),
]
Payloads = Annotated[list[dict[str, JsonValue] | None], STOP]
Include = Literal["labels", "fields", "payloads"]
Where = Annotated[
    dict[str, JsonValue] | None,
    Field(description='A filter, such as {"tenant": "a", "price": {"$lt": 10}}.'),
]
FieldType = Literal["str", "int", "float", "bool", "datetime", "list"]
Numbers = Annotated[list[float], STOP]
Parameter = bool | int | float | str | Numbers | Annotated[list[Numbers], STOP] | None


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CreateRequest(_Request):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "photos", "method": "PosteriorHash", "n_bits": 64, "fields": {"tenant": "str"}}
            ]
        }
    )
    name: Annotated[str, Field(pattern=NAME, description="Letters, digits and . _ -, at most 64.")]
    method: Annotated[str, Field(description="A method of `hashstream methods`.")] = "PosteriorHash"
    n_bits: Annotated[int, Field(ge=1, le=1024)] = 64
    parameters: Annotated[dict[str, Parameter], Field(description="Other parameters of the method.")] = {}
    fields: dict[str, FieldType] = {}
    policy: Annotated[
        str | dict[str, JsonValue] | None,
        Field(description='When items are re-encoded, such as "every:100".'),
    ] = None
    durability: Literal["full", "fast"] | None = None
    keep_features: bool | None = None
    max_versions: Annotated[int | None, Field(ge=1, le=1 << 20)] = None
    sample_size: Annotated[int | None, Field(ge=0, le=1_000_000)] = None
    checkpoint_rows: Annotated[int | None, Field(ge=1, le=1 << 40)] = None
    index: Literal["auto", "scan"] | None = None


class IngestRequest(_Request):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ids": [1, 2],
                    "vectors": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]],
                    "labels": ["cat", None],
                    "fields": {"tenant": ["a", "b"]},
                    "payloads": [{"title": "first"}, None],
                }
            ]
        }
    )
    ids: IdList
    vectors: Vectors
    labels: LabelList | None = None
    fields: dict[str, list[Any]] | None = None
    payloads: Payloads | None = None
    learn: Annotated[bool, Field(description="Whether to learn from the rows that have a label.")] = True


class GetRequest(_Request):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [1, 2]}]})
    ids: IdList
    features: bool = False


class IdsRequest(_Request):
    model_config = ConfigDict(json_schema_extra={"examples": [{"where": {"tenant": "a"}, "limit": 100}]})
    where: Where = None
    offset: Annotated[int, Field(ge=0, le=1 << 53)] = 0
    limit: Annotated[int | None, Field(ge=0, le=1 << 53, description="All by default.")] = None


class CountRequest(_Request):
    model_config = ConfigDict(json_schema_extra={"examples": [{"where": {"tenant": "a"}}]})
    where: Where = None


class RemoveRequest(_Request):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [1, 2]}, {"where": {"tenant": "a"}}]})
    ids: IdList | None = None
    where: Where = None


class LabelsRequest(_Request):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [1, 2], "labels": ["cat", None]}]})
    ids: IdList
    labels: Annotated[LabelList, Field(description="One per id; null takes a label back.")]


class _Query(_Request):
    vectors: Vectors | None = None
    like: Annotated[IdList | None, Field(description="Ids of stored items, in the place of vectors.")] = None
    where: Where = None
    compare: Literal["auto", "like", "current"] = "auto"
    include: Annotated[list[Include], STOP] = []
    partial: Annotated[
        bool,
        Field(
            description="For clusters only: answer without the shards that are lost; `missing` says how much."
        ),
    ] = False


class SearchRequest(_Query):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"vectors": [[0.1, 0.2, 0.3]], "k": 10, "include": ["labels"]}]}
    )
    k: Annotated[int, Field(ge=1)] = 10
    rescore: Annotated[int | None, Field(ge=1)] = None
    metric: Literal["cosine", "dot", "euclidean"] = "cosine"
    asymmetric: bool = False
    offset: Annotated[int, Field(ge=0)] = 0


class RadiusRequest(_Query):
    model_config = ConfigDict(json_schema_extra={"examples": [{"vectors": [[0.1, 0.2, 0.3]], "radius": 2}]})
    radius: Annotated[int, Field(ge=0, le=1024)]


class RefreshRequest(_Request):
    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 10000}]})
    budget: Annotated[int | None, Field(ge=1, description="Items at most; all by default.")] = None


class FieldsRequest(_Request):
    model_config = ConfigDict(json_schema_extra={"examples": [{"fields": {"colour": "str"}}]})
    fields: dict[str, FieldType]


class CheckRequest(_Request):
    sample: Annotated[int, Field(ge=0, le=1_000_000, description="Items that are encoded again.")] = 1000


# ---- answers


class TableInfo(BaseModel):
    name: str
    state: Literal["open", "opening", "failed", "closed"]
    error: str | None = None
    method: str | None = None
    parameters: dict[str, Any] = {}
    n_bits: int | None = None
    n_items: int | None = None
    n_features: int | None = None
    dtype: str | None = None
    ids: Literal["int", "str"] | None = None
    fields: dict[str, str] = {}
    policy: str | None = None
    settings: dict[str, Any] | None = None
    durability: str | None = None
    keeps_features: bool | None = None
    read_only: bool = False
    commits: int | None = None
    version: int | None = None
    images: bool = False
    network: bool = False


class Tables(BaseModel):
    tables: list[TableInfo]


class Stored(BaseModel):
    stored: int


class Removed(BaseModel):
    removed: int


class Changed(BaseModel):
    changed: int


class Recoded(BaseModel):
    recoded: int


class Freed(BaseModel):
    freed: int


class Count(BaseModel):
    count: int


class Checked(BaseModel):
    batches: int
    rows: int
    codes: int


class Ids(BaseModel):
    ids: list[Id]
    total: int


Missing = Annotated[
    float | None, Field(description="With `partial`: the share of the items that were not searched.")
]


class SearchAnswer(BaseModel):
    distances: list[list[float]]
    ids: list[list[Id]]
    labels: list[list[Any]] | None = None
    fields: dict[str, list[list[Any]]] | None = None
    payloads: list[list[dict[str, Any] | None]] | None = None
    missing: Missing = None


class RadiusAnswer(BaseModel):
    offsets: list[int]
    distances: list[int]
    ids: list[Id]
    labels: list[Any] | None = None
    fields: dict[str, list[Any]] | None = None
    payloads: list[dict[str, Any] | None] | None = None
    missing: Missing = None


class ItemsAnswer(BaseModel):
    ids: list[Id]
    codes: Annotated[list[str], Field(description="In hexadecimal.")]
    versions: list[int]
    labels: list[Any]
    fields: dict[str, list[Any]]
    payloads: list[dict[str, Any] | None]
    features: list[list[float]] | None = None


class StatsAnswer(BaseModel):
    model_config = ConfigDict(extra="allow")
    n_items: int
    n_bits: int | None
    versions: dict[str, int]
    stale: float
    n_stale: int
    n_seen: int
    commits: int
    drift: dict[str, Any]


class Suggestion(BaseModel):
    id: Id
    why: str
    uncertainty: float
    guess: Any = None


class Confused(BaseModel):
    a: Any
    b: Any
    share: float


class SuggestionsAnswer(BaseModel):
    items: list[Suggestion]
    confused: list[Confused]
    n_labelled: int
    n_items: int


class MapAnswer(BaseModel):
    ids: list[Id]
    x: list[float]
    y: list[float]
    labels: list[Any]
    version: int | None


class TeachingAnswer(BaseModel):
    points: list[dict[str, Any]]
    classes: list[dict[str, Any]]


class HealthAnswer(BaseModel):
    points: list[dict[str, Any]]
    every: float
    refresh: dict[str, Any]


class EmbedAnswer(BaseModel):
    vector: list[float]


class Status(BaseModel):
    status: str


class ProblemDetails(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None

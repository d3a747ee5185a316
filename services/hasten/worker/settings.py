"""The settings of a worker; those of its engine are in the model table."""

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`[worker]` of the config, or HASTEN_WORKER_*.

    `model` is the name, alias or slug of the row to run, the first of the table when empty. `worker` is the subject
    token of this worker, made up when empty; two workers of a model must not share one. `data` is the folder with the
    models. `status_interval_s` is the time between two words about itself: a worker not heard of for 2 s is gone.
    `revive_after_s` is the pause before a broken engine is started again; it doubles up to `revive_most_s` while that
    fails. `tenant_share` is the most of the line that one tenant may fill.
    """

    model: str = ""
    worker: str = ""
    data: str = ".hasten"
    status_interval_s: float = 0.25
    revive_after_s: float = 1.0
    revive_most_s: float = 30.0
    tenant_share: float = 0.75

"""What a target was made for, compared with what the tables file wants of it now; and whether its
source tables may claim one key.

Until `ingest rebuild` makes it anew, a target stays what it was made for. If it is wanted
otherwise, neither changes nor schema changes nor retention touch it, since that could not be
undone.
"""

from __future__ import annotations

from ingest.config.modes import Keeping, TargetContract, masks_of, mode_of
from ingest.config.routes import Route
from ingest.errors import TableError


def may_share_keys(route: Route, keeps: Keeping, *, tables: int) -> bool:
    """Whether several source tables may claim one key of a target that `tables` of them feed (27).
    With a shard_column the table is part of the key."""
    return keeps.keyed and route.shard_column is None and tables > 1


class OtherMasks(TableError):
    """Rows of a target are masked otherwise than the configuration says."""


def other_masks(route: Route, contract: TargetContract | None) -> str | None:
    """The sentence on a target whose rows are masked otherwise than the configuration says."""
    now = masks_of(route)
    if contract is None or contract.masks == now:
        return None
    was, wanted = (", ".join(masks) or "none" for masks in (contract.masks, now))
    return (
        f"expected masks ({wanted}), got {route.target} with ({was}); nothing is applied to it "
        f"until `ingest rebuild {route.target}` makes it so, or the tables file has those again"
    )


def _other_contract(route: Route, contract: TargetContract | None) -> str | None:
    """The sentence on a target that the configuration wants to be of another kind."""
    mode = mode_of(route, contract.keys) if contract is not None else None
    if contract is None or mode is None:
        return None
    wanted = TargetContract.by(route, mode, contract.keys)
    if not contract.differs(wanted):
        return None
    grave = "" if contract.mode == wanted.mode else " --yes"
    return (
        f"expected {contract}, with which {route.target} was made, got {wanted}; "
        f"`ingest rebuild {route.target}{grave}` makes it so, or set what it was made with"
    )


def _other_shard(route: Route, contract: TargetContract | None) -> str | None:
    """The sentence on a target that was made with a shard column which the configuration no longer
    names."""
    if contract is None or contract.shard is None:
        return None
    if contract.shard.lower() == (route.shard_column or "").lower():
        return None
    return (
        f"expected the shard_column {contract.shard}, with which {route.target} was made, got "
        f"{route.shard_column or 'none'}; `ingest rebuild {route.target} --yes` makes it so, or "
        "set what it was made with"
    )


def made_otherwise(route: Route, contract: TargetContract | None) -> bool:
    """Whether the configuration wants the target otherwise than it was made."""
    judges = (other_masks, _other_contract, _other_shard)
    return any(judge(route, contract) is not None for judge in judges)


def check_made_for(route: Route, contract: TargetContract | None) -> None:
    """Raise OtherMasks if rows with different masks would meet in the target, and TableError if the
    target would have to be of another kind."""
    if (masks := other_masks(route, contract)) is not None:
        raise OtherMasks(masks)
    for judge in (_other_contract, _other_shard):
        if (text := judge(route, contract)) is not None:
            raise TableError(text)

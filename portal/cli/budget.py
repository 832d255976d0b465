"""`commons budget`: budgets as granted, their history, and changing them, one level or a whole file at once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli import show
from portal.cli.client import Client
from portal.cli.errors import UsageError
from portal.cli.output import Format, json_print, line_print, moment_words, table_print
from portal.cli.running import ROWS_MAX, ClusterFlag, Output, ProjectFlag, guarded

OK = 200
CAP_NONE = "none"

app = typer.Typer(
    help="Budgets as granted: percent, GPUs, GPU-hours a week, with the version of the change; and changing them.",
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AtFlag = Annotated[str | None, typer.Option("--at", help="As of a moment, as 2026-10-01T00:00:00Z. Default: now.")]
ReasonFlag = Annotated[str, typer.Option("--reason", help="Why: it stands in the history.")]
FromFlag = Annotated[
    str | None, typer.Option("--effective-at", help="When it takes effect, as 2026-12-01T08:00:00Z. Default: at once.")
]


@app.callback()
def budget(
    context: typer.Context,
    project: ProjectFlag = None,
    cluster: ClusterFlag = None,
    at: AtFlag = None,
    output: Output = Format.table,
) -> None:
    """Budgets as granted, now or as of a moment; with a command after it, their history or a change."""
    if context.invoked_subcommand is not None:
        return

    def act(client: Client) -> None:
        rows = list(client.pages("budgets/", ROWS_MAX, project=project, cluster=cluster, at=at))
        json_print(rows) if output is Format.json else show.budgets_print(rows)

    guarded(act, output)


@app.command()
def history(project: ProjectFlag = None, cluster: ClusterFlag = None, output: Output = Format.table) -> None:
    """Changes, the newest first: who, when, from, to, why. With --project those that moved it."""

    def act(client: Client) -> None:
        rows = list(client.pages("budget-changes/", ROWS_MAX, project=project, cluster=cluster))
        if project is not None:
            rows = [row for row in rows if any(move["project"] == project for move in row["moves"])]
        json_print(rows) if output is Format.json else _history_print(rows)

    guarded(act, output)


@app.command(name="set")
def set_command(
    parent: Annotated[str, typer.Argument(help="The project whose children get the budgets, as lab.")],
    shares: Annotated[
        list[str],
        typer.Argument(metavar="CHILD=PERCENT[:CAP]...", help="As nlp=35 or nlp=35:64; :none lifts the burst cap."),
    ],
    reason: ReasonFlag,
    cluster: Annotated[str, typer.Option("--cluster", help="The cluster's name.")],
    effective_at: FromFlag = None,
    base_version: Annotated[
        int | None, typer.Option("--base-version", min=0, help="The version that you looked at. Default: the newest.")
    ] = None,
    output: Output = Format.table,
) -> None:
    """Set budgets of a level: children that are not named keep theirs. All of it, or nothing."""
    named = dict(share_parse(each) for each in shares)
    if len(named) < len(shares):
        raise typer.BadParameter("a child is named twice")

    def act(client: Client) -> None:
        body = level_body(client, parent, cluster, named)
        if base_version is not None:
            body["base_version"] = base_version
        sent = {**body, "reason": reason, "effective_at": effective_at}
        answer = client.post("budget-changes/", sent)
        if answer.status_code == OK and output is Format.table:
            line_print(f"Nothing changes: the budgets stand so already, in version {answer.json()['version']}.")
        else:
            _made_print(answer.json(), output)

    guarded(act, output)


@app.command()
def undo(
    change: Annotated[int, typer.Argument(min=1, metavar="CHANGE", help="The change's number, as history shows it.")],
    reason: ReasonFlag,
    effective_at: FromFlag = None,
    output: Output = Format.table,
) -> None:
    """Take a change back by a new one; one that is still ahead is withdrawn."""

    def act(client: Client) -> None:
        version = client.get(f"budget-changes/{change}/")["level_version"]
        sent = {"base_version": version, "reason": reason, "effective_at": effective_at}
        _made_print(client.post(f"budget-changes/{change}/undo/", sent).json(), output)

    guarded(act, output)


@app.command(name="export")
def export_command(cluster: ClusterFlag = None, at: AtFlag = None) -> None:
    """Budgets of all levels as CSV, to the output."""

    def act(client: Client) -> None:
        text = client.stream("budgets/export/", cluster=cluster, at=at).content.decode()
        typer.echo(text, nl=False)

    guarded(act)


@app.command(name="import")
def import_command(
    file: Annotated[Path, typer.Argument(help="A CSV as exported.", exists=True, dir_okay=False)],
    reason: Annotated[str, typer.Option("--reason", help="Why: it stands beside every change.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    effective_at: FromFlag = None,
    output: Output = Format.table,
) -> None:
    """Change every level in which a CSV differs from what is in force: all of them, or none."""

    def act(client: Client) -> None:
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{file} is not UTF-8: save it as CSV UTF-8.") from None
        sent = {"csv": text, "reason": reason, "dry_run": dry_run, "effective_at": effective_at}
        answer = client.post("budgets/import/", sent).json()
        json_print(answer) if output is Format.json else _import_print(answer)
        if answer["errors"]:
            raise typer.Exit(1)

    guarded(act, output)


def share_parse(text: str) -> tuple[str, dict[str, Any]]:
    """`nlp=35`, `nlp=35:64`, `nlp=35:none`: the child, its percent as text, and its burst cap where one is given."""
    child, equals, share = text.partition("=")
    percent, colon, cap = share.partition(":")
    if not child or not equals or not percent or (colon and cap != CAP_NONE and not (cap.isascii() and cap.isdigit())):
        raise typer.BadParameter(f"{text!r} is not CHILD=PERCENT, as nlp=35, or CHILD=PERCENT:CAP, as nlp=35:64")
    given: dict[str, Any] = {"percent": percent.removesuffix("%").strip()}
    if colon:
        given["burst_gpus"] = None if cap == CAP_NONE else int(cap)
    return child, given


def level_body(client: Client, parent: str, cluster: str, named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Every child of the level: with what is named, the others with what they have."""
    parent = parent.strip("/")
    # The version first: what is changed from here on makes it stale.
    newest = client.get("budget-changes/", parent=parent, cluster=cluster, limit=1)["results"]
    rows = {row["project"]: row for row in client.pages("budgets/", ROWS_MAX, parent=parent, cluster=cluster)}
    children = {
        row["path"]: row for row in client.pages("projects/", ROWS_MAX, parent=parent) if not row.get("archived_at")
    }
    wanted = {child if "/" in child else f"{parent}/{child}": given for child, given in named.items()}
    lines = []
    for path in [*children, *(path for path in wanted if path not in children)]:
        row = rows.get(path)
        line = {"percent": _exact(row), "burst_gpus": row["burst_gpus"] if row else None}
        lines.append({"project": path, **line, **wanted.get(path, {})})
    version = newest[0]["version"] if newest else 0
    return {"cluster": cluster, "parent": parent, "base_version": version, "children": lines}


def _exact(row: dict[str, Any] | None) -> str:
    """The percent as stored, to its last digit."""
    whole, rest = divmod(row["share_ppm"] if row else 0, 10_000)
    return f"{whole}.{rest:04d}"


def _history_print(rows: list[dict[str, Any]]) -> None:
    columns = ("CHANGE", "MADE", "TAKES EFFECT", "WHO", "CLUSTER", "BELOW", "VERSION", "STATE", "FROM, TO", "REASON")
    cells = [
        (
            row["id"],
            moment_words(row["created_at"]),
            moment_words(row["effective_at"]),
            row["author"] or "the system",
            row["cluster"],
            row["parent"],
            row["version"],
            row["state"].replace("_", " "),
            moves_words(row["moves"]),
            row["reason"],
        )
        for row in rows
    ]
    table_print(columns, cells, "No changes.")


def moves_words(moves: list[dict[str, Any]]) -> str:
    """`lab/nlp 30 % -> 40 %; …`."""
    return "; ".join(f"{move['project']} {_line(move, 'from')} -> {_line(move, 'to')}" for move in moves) or "none"


def _line(move: dict[str, Any], end: str) -> str:
    percent, cap = move[f"{end}_percent"], move[f"{end}_burst_gpus"]
    if percent is None:
        return "no budget"
    return f"{percent:g} %" + (f" (at most {cap} GPUs)" if cap is not None else "")


def _made_print(change: dict[str, Any], output: Format) -> None:
    if output is Format.json:
        json_print(change)
        return
    when = moment_words(change["effective_at"])
    line_print(f"Change {change['id']}, version {change['version']} of {change['parent']} on {change['cluster']}.")
    line_print(f"From {when} on: {moves_words(change['moves'])}.")
    _planned_print(change["planned_after"])


def _planned_print(planned: list[dict[str, Any]]) -> None:
    """What changes still ahead will set back."""
    for each in planned:
        when = moment_words(each["effective_at"])
        line_print(f"Change {each['change']}, planned for {when}, then sets: {moves_words(each['sets_back'])}.")


def _import_print(answer: dict[str, Any]) -> None:
    for error in answer["errors"]:
        column = f", {error['column']}" if error["column"] else ""
        line_print(f"Line {error['line']}{column}: {error['detail']}")
    for level in answer["levels"]:
        line_print(f"{level['parent']} on {level['cluster']}: {moves_words(level['moves'])}")
        _planned_print(level["planned_after"])
    if answer["errors"]:
        line_print("Nothing was changed.")
    elif answer["dry_run"]:
        line_print(f"{len(answer['levels'])} levels would change; nothing was changed yet.")
    else:
        line_print(f"Changed: {len(answer['changes'])} levels.")

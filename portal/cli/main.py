"""The command `commons`: what a researcher types. It speaks HTTP and knows nothing of the portal's inside."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from portal.cli import budget, follow, show, simulate, submit
from portal.cli.client import Client
from portal.cli.errors import REFUSED
from portal.cli.output import Format, complaint_print, json_print, line_print
from portal.cli.running import ROWS_MAX, ClusterFlag, Output, ProjectFlag, WorkloadId, guarded

QUEUE_ROWS_DEFAULT = 500

app = typer.Typer(
    name="commons",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "GPU Commons at the command line. COMMONS_URL names the portal (default http://127.0.0.1:8000), "
        "COMMONS_TOKEN is your API token. Durations: 90, 30m, 1h, HH:MM:SS, 1-12:00:00. "
        "Exit status: 0 done, 1 refused, 2 used wrongly, 3 the portal can't be reached."
    ),
)

app.add_typer(budget.app, name="budget")


class CommandAfterDashes(TyperCommand):
    """A command whose words after `--` are another program's, untouched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        argv: list[str] = []
        if "--" in args:
            cut = args.index("--")
            args, argv = args[:cut], args[cut + 1 :]
        ctx.meta["argv"] = argv
        return super().parse_args(ctx, args)


@app.command(name="submit", cls=CommandAfterDashes)
def submit_command(
    context: typer.Context,
    script: Annotated[
        Path | None, typer.Argument(help="A script (- reads it from the input); its #SBATCH lines are read.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", "-g", min=1, help="GPUs of each replica. Default 1.")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", "-N", min=1, help="Replicas. Default 1.")] = None,
    min_runtime: Annotated[
        str | None, typer.Option("--min-runtime", help="The shortest run that is worth having, as 1h. Default 0.")
    ] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", "-t", help="Stopped after this long, as 8h.")] = None,
    project: ProjectFlag = None,
    cluster: Annotated[
        list[str] | None, typer.Option("--cluster", help="A cluster that will do; again for more. Default: any.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "-J", help="A name to know it by.")] = None,
    resume: Annotated[
        bool | None, typer.Option("--resume/--no-resume", help="Whether it can go on after being stopped.")
    ] = None,
    unallocated: Annotated[
        bool, typer.Option("--unallocated/--no-unallocated", help="Whether it may run free of charge, preemptible.")
    ] = True,
    priority: Annotated[int, typer.Option("--priority", help="Orders work inside its project, and nowhere else.")] = 0,
    env: Annotated[
        list[str] | None, typer.Option("--env", help="NAME=value, or NAME for its value here; again for more.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; exit 1 unless it succeeded.")] = False,
    output: Output = Format.table,
) -> None:
    """Submit a workload: `commons submit --gpus 8 -- python train.py`, or `commons submit script.sh`."""
    asked = submit.Asked(
        script=script, argv=context.meta["argv"], name=name, project=project, clusters=cluster or [], gpus=gpus,
        replicas=replicas, min_runtime=min_runtime, timeout=timeout, resumable=resume,
        allow_unallocated=unallocated, priority=priority, environment=env or [],
    )  # fmt: skip
    guarded(lambda client: _submit(client, asked, output, wait=wait), output)


def _submit(client: Client, asked: submit.Asked, output: Format, *, wait: bool) -> None:
    body, ignored = submit.body_make(asked, lambda: _only_project(client))
    for line in ignored:
        complaint_print(f"Ignored: #SBATCH {line}")
    workload = submit.workload_post(client, body)
    if output is Format.table:
        line_print(submit.submitted_words(workload))
    if wait:
        workload = follow.end_wait(client, workload["id"])
        if output is Format.table:
            line_print(f"Workload {workload['id']} {show.state_words(workload['state'])}.")
    if output is Format.json:
        json_print(workload)
    if wait and workload["state"] != "succeeded":
        raise typer.Exit(REFUSED)


def _only_project(client: Client) -> str | None:
    """The project of someone who can mean only one."""
    paths = [role["project"] for role in client.get("whoami/")["roles"] if role["role"] != "viewer"]
    return paths[0] if len(paths) == 1 else None


@app.command()
def queue(
    project: ProjectFlag = None,
    cluster: ClusterFlag = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only what you submitted.")] = False,
    state: Annotated[str, typer.Option(help="States, by comma.")] = "pending,running",
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=1, max=ROWS_MAX, help="At most so many.")
    ] = QUEUE_ROWS_DEFAULT,
    output: Output = Format.table,
) -> None:
    """What runs and what waits, with position, GPUs ahead and reason."""

    def act(client: Client) -> None:
        author = client.get("whoami/")["username"] if mine else None
        filters = {"state": state, "project": project, "cluster": cluster, "author": author, "ordering": "queue"}
        # A workload that moves while pages are read may stand on two of them: the later reading is the newer one.
        found = list({row["id"]: row for row in client.pages("workloads/", rows, **filters)}.values())
        if len(found) == rows and output is Format.table:
            complaint_print(f"Only the first {rows}, what waits before what runs: -n shows more.")
        json_print(found) if output is Format.json else show.queue_print(found)

    guarded(act, output)


@app.command()
def status(workload: WorkloadId, output: Output = Format.table) -> None:
    """Everything about one workload: state, attempts, hosts, charges."""
    _show_one(workload, show.workload_print, output)


@app.command()
def why(workload: WorkloadId, output: Output = Format.table) -> None:
    """Why a workload waits, in words and numbers."""
    _show_one(workload, show.why_print, output)


def _show_one(workload: int, printer: Callable[[dict[str, Any]], None], output: Format) -> None:
    def act(client: Client) -> None:
        answer = client.get(f"workloads/{workload}/")
        json_print(answer) if output is Format.json else printer(answer)

    guarded(act, output)


@app.command()
def cancel(
    workloads: Annotated[list[int], typer.Argument(min=1, metavar="WORKLOAD...", help="Numbers of workloads.")],
    output: Output = Format.table,
) -> None:
    """Cancel workloads. Doing it again does no harm."""

    def act(client: Client) -> None:
        for number in workloads:
            answer = client.post(f"workloads/{number}/cancel/", {}).json()
            if output is Format.json:
                json_print(answer)
            elif answer["state"] in follow.FINAL:
                line_print(f"Workload {number} {show.state_words(answer['state'])}.")
            else:
                line_print(f"Workload {number} is being stopped.")

    guarded(act, output)


@app.command()
def logs(
    workload: WorkloadId,
    follow_on: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the workload has ended.")] = False,
    attempt: Annotated[int | None, typer.Option(min=1, help="An attempt's number. Default: the latest.")] = None,
    replica: Annotated[int, typer.Option(min=0, help="A replica, counted from 0.")] = 0,
) -> None:
    """What a workload wrote."""
    guarded(lambda client: follow.log_copy(client, workload, attempt, replica, follow=follow_on))


@app.command()
def hosts(cluster: ClusterFlag = None, output: Output = Format.table) -> None:
    """Hosts: state, GPUs occupied, held and free."""
    _show_list("hosts/", show.hosts_print, output, cluster=cluster)


@app.command()
def share(project: ProjectFlag = None, cluster: ClusterFlag = None, output: Output = Format.table) -> None:
    """What projects are entitled to beside what they used: balances."""
    _show_list("budgets/", show.share_print, output, project=project, cluster=cluster)


def _show_list(path: str, printer: Callable[[list[dict[str, Any]]], None], output: Format, **filters: Any) -> None:
    def act(client: Client) -> None:
        rows = list(client.pages(path, ROWS_MAX, **filters))
        json_print(rows) if output is Format.json else printer(rows)

    guarded(act, output)


@app.command()
def usage(
    project: ProjectFlag = None,
    cluster: ClusterFlag = None,
    start: Annotated[str | None, typer.Option(help="From, as 2026-10-01T00:00:00Z. Default: 7 days ago.")] = None,
    end: Annotated[str | None, typer.Option(help="To. Default: now.")] = None,
    output: Output = Format.table,
) -> None:
    """GPU-hours that projects used, by standing."""

    def act(client: Client) -> None:
        answer = client.get("usage/", project=project, cluster=cluster, start=start, end=end)
        json_print(answer) if output is Format.json else show.usage_print(answer)

    guarded(act, output)


@app.command(name="simulate")
def simulate_command(
    scenario: Annotated[
        Path | None, typer.Argument(help="A scenario as JSON. Without one: this portal's history as it was.")
    ] = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="A trace: CSV, SWF or sacct --parsable2.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Replay this portal's history from then on, as 2026-10-01T00:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="To then. Default: now.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="A name to know it by. Default: the file's.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="In place of the scenario's.")] = None,
    cluster: ClusterFlag = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the report; exit 1 if there is none.")] = False,
    output: Output = Format.table,
) -> None:
    """What if: simulate a scenario on the portal: `commons simulate what-if.json --trace jobs.csv --wait`."""
    asked = simulate.Asked(scenario, trace, title, seed, cluster, since, until)
    guarded(lambda client: _simulate(client, asked, output, wait=wait), output)


def _simulate(client: Client, asked: simulate.Asked, output: Format, *, wait: bool) -> None:
    run = simulate.run_post(client, asked)
    if output is Format.table:
        line_print(f"Simulation {run['id']} is queued.")
    if wait:
        run = simulate.end_wait(client, run["id"], show=output is Format.table)
    if output is Format.json:
        json_print(run)
    elif wait:
        simulate.run_print(run)
    if wait and run["state"] != "done":
        raise typer.Exit(REFUSED)


@app.command()
def whoami(output: Output = Format.table) -> None:
    """Who the token says you are, and your roles."""

    def act(client: Client) -> None:
        person = client.get("whoami/")
        json_print(person) if output is Format.json else show.whoami_print(person)

    guarded(act, output)


def main() -> None:
    """Entry point of the console script."""
    try:
        app(prog_name="commons")
    except BrokenPipeError:
        # The reader (head, less) has had enough: not our fault, and nothing more can be said to it.
        sys.stderr.close()
        raise SystemExit(0) from None

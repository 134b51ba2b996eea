"""The debugger's loop: stop, take commands, run a node."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from pydantic_graph import End

from agent_graph.agent import Agent
from agent_graph.cli.debugger import commands
from agent_graph.cli.debugger.breaks import Breakpoints
from agent_graph.cli.debugger.editing import edit_call
from agent_graph.cli.debugger.interrupts import Interrupts
from agent_graph.cli.debugger.keeping import fork_here, keep
from agent_graph.cli.debugger.showing import (
    LONG,
    node_name,
    show_messages,
    show_node,
    show_state,
    show_usage,
    show_waiting,
)
from agent_graph.cli.dialog import Dialog
from agent_graph.cli.exits import CommandError, Exit, exit_of, one_line
from agent_graph.cli.facts import Place
from agent_graph.cli.people import Answers, find_call, given_answer
from agent_graph.cli.view import LiveView, Report
from agent_graph.engine.answers import resolve
from agent_graph.engine.nodes import UserPrompt
from agent_graph.errors import AnswerError
from agent_graph.journal import Journal
from agent_graph.journal.checks import status_of
from agent_graph.journal.entries import Entered, Record
from agent_graph.pending import Pending
from agent_graph.runner import AgentRun

__all__ = ['Debugger', 'Opening', 'Setting']

Opening: TypeAlias = AbstractAsyncContextManager[AgentRun[Any]]
"""What `agent.iter(...)` and `agent.resume_iter(...)` give."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is debugged, and where: `options` are those of `agent.resume`."""

    agent: Agent[Any, Any]
    journal: Journal
    place: Place
    options: dict[str, Any]


class Debugger:
    """Walks a run node by node, as it is told."""

    def __init__(self, setting: Setting, dialog: Dialog) -> None:
        self._setting = setting
        self._dialog = dialog
        self._out = dialog.out
        self._breaks = Breakpoints(())
        self._stepping = True
        self._straight = False  # after a pause the node goes on that the answers are for
        self._error: BaseException | None = None
        self._moved = False
        self._interrupts = Interrupts(lambda text: self._out.line(text, 'yellow'))

    async def walk(self, opening: Opening) -> Exit:
        """Walk to the end, or until it is left; says how it ended. Raises what opening the run raises."""
        with self._interrupts as interrupts:
            try:
                code = await self._session(opening)
            except asyncio.CancelledError:
                if not interrupts.caught():
                    raise
                code = await self._finish()
            return interrupts.exit or code

    async def _session(self, opening: Opening) -> Exit:
        code = await self._until_it_waits(opening)
        while code is None:
            answers = await self._at_pause(self._run)
            if answers is None:
                return self._left(self._run.run_id)
            try:
                code = await self._until_it_waits(self._reopened(answers))
            except AnswerError:  # what was said here is not recorded, and so not done
                self._out.line('somebody else has answered meanwhile: your answers have not been recorded', 'red')
                self._stepping, self._straight = True, False
                code = await self._until_it_waits(self._reopened({}))
        return code

    def _reopened(self, answers: Answers) -> Opening:
        return self._setting.agent.resume_iter(self._run.run_id, answers=answers, **self._setting.options)

    async def _until_it_waits(self, opening: Opening) -> Exit | None:
        """Walk until the run waits for people (`None`), has ended, or is left."""
        async with opening as run:
            self._run = run
            plan = run.ctx.deps.plan
            if self._breaks.listed() == 'no breakpoints':
                self._breaks = Breakpoints((*plan.tools, *plan.output.tools))
            if not await self._to_the_end(run):
                await keep(run)
                return self._left(run.run_id)
        ended = run.ctx.state.ended is not None or self._error is not None
        return await self._finish() if ended else None

    async def _to_the_end(self, run: AgentRun[Any]) -> bool:
        """Run node after node; false when the debugger was left before the end."""
        while not isinstance(run.next_node, End) and run.ctx.state.ended is None:
            why = self._reason_to_stop(run.next_node)
            if why is not None and not await self._at_node(run, why):
                return False
            try:
                await self._run_node(run)
            except Exception as error:  # the run has failed, and that is recorded, or has another driver
                self._error = error
                return True
        return True

    def _reason_to_stop(self, node: object) -> str | None:
        """Why to stop before this node, in words that may be empty; `None` to run it."""
        straight, self._straight = self._straight, False
        if self._interrupts.stop:
            return ''
        if straight:
            return None
        return '' if self._stepping else self._breaks.hit(node) or None

    async def _run_node(self, run: AgentRun[Any]) -> None:
        node: Any = run.next_node
        self._moved = True
        if isinstance(node, UserPrompt):  # nothing happens in it that could be watched
            self._out.line('● UserPrompt', 'bold cyan')
        else:
            view = LiveView(self._out)  # a new one: it would count the time at the prompt as the model's
            async with node.stream(run.ctx) as events:
                async for event in events:
                    view.show(event)
        await run.next(node)

    # At a stop

    async def _at_node(self, run: AgentRun[Any], why: str) -> bool:
        """Stop before a node and do what is typed, until the run is to go on (true) or is left (false)."""
        node = run.next_node
        self._interrupts.stop = False
        again = ' (entered before the run stopped)' if run.ctx.deps.entered else ''
        self._out.line('')
        self._out.line(f'stopped before {node_name(run, node)}{again}', 'bold', note=f'  {why}' if why else '')
        show_node(self._out, run, node)
        while (command := await self._command()) is not None:
            try:
                if isinstance(command, commands.Go):
                    self._stepping = not command.on
                    return True
                if isinstance(command, commands.Answer):
                    raise CommandError(f'nothing waits for an answer here; {command.verb} is for a run that is paused')
                await self._do(run, command)
            except CommandError as error:
                self._out.line(error.message, 'red')
        return False

    async def _at_pause(self, run: AgentRun[Any]) -> Answers | None:
        """Stop where the run waits for people; the answers to go on with, or `None` when it is left."""
        waiting = run.ctx.state.waiting
        self._interrupts.stop = False
        self._out.line('')
        self._out.line('the run waits; approve, deny or answer, then next or continue', 'bold yellow')
        show_waiting(self._out, waiting)
        answers: Answers = {}
        while (command := await self._command()) is not None:
            try:
                if isinstance(command, commands.Answer):
                    self._answer(run, waiting, answers, command)
                elif not isinstance(command, commands.Go):
                    await self._do(run, command)
                elif not answers:
                    raise CommandError('the run waits for an answer: approve, deny or answer a call first, or quit')
                else:
                    self._stepping, self._straight = not command.on, True
                    return answers
            except CommandError as error:
                self._out.line(error.message, 'red')
        return None

    def _answer(
        self, run: AgentRun[Any], waiting: tuple[Pending, ...], answers: Answers, command: commands.Answer
    ) -> None:
        """Check an answer now; it is recorded when the run goes on."""
        pending = find_call(waiting, command.call)
        args = command.text if command.verb == 'approve' and command.text else None
        given = given_answer(command.verb, pending, text=command.text, args=args)
        try:
            resolve(run.ctx.state, run.ctx.deps.plan, {pending: given})
        except AnswerError as error:
            raise CommandError(one_line(error)) from error
        answers[pending] = given
        self._out.line(f'{command.call}: {command.verb}; recorded when the run goes on', 'green')

    async def _command(self) -> commands.Command | None:
        """The next command; `None` to leave."""
        while self._interrupts.exit is None:
            line = await self._interrupts.wait(self._dialog.ask('(step) '))
            if line is None:
                return None
            try:
                command = commands.parse(line)
            except CommandError as error:
                self._out.line(error.message, 'red')
                continue
            if isinstance(command, commands.Quit):
                return None
            if command is not None:
                return command
        return None

    async def _do(self, run: AgentRun[Any], command: commands.Command) -> None:
        """What can be done at every stop."""
        match command:
            case commands.Break(what, name):
                self._out.line(self._breaks.add(what, name) if name else self._breaks.listed())
            case commands.Clear(what, name):
                self._out.line(self._breaks.remove(what, name))
            case commands.Edit(call, args):
                self._out.line(edit_call(run, call, args))
                show_node(self._out, run, run.next_node)
            case commands.Show(what):
                self._show(run, what)
            case commands.Fork():
                await self._fork(run)
            case commands.Help():
                self._out.line(commands.HELP)
            case commands.Go() | commands.Answer() | commands.Quit():
                return
            case _:
                assert_never(command)

    def _show(self, run: AgentRun[Any], what: str) -> None:
        match what:
            case 'messages':
                show_messages(self._out, run)
            case 'usage':
                show_usage(self._out, run)
            case 'node':
                show_node(self._out, run, run.next_node, limit=LONG)
            case _:
                show_state(self._out, run)

    async def _fork(self, run: AgentRun[Any]) -> None:
        made = await fork_here(run, self._setting.journal)
        self._out.line(f'forked as run {made}; this run goes on untouched. To step through the other one:', 'green')
        self._out.line(self._step_command(made), indent=2)

    # How it ends

    def _left(self, run_id: str) -> Exit:
        place = self._setting.place
        self._out.line('')
        self._out.line(f'left run {run_id} before its end', 'bold')
        if not place.journal:
            self._out.line('it was kept in memory only; to be able to come back, pass --journal PATH')
            return Exit.PAUSED
        self._out.line('to step on:')
        self._out.line(self._step_command(run_id), indent=2)
        self._out.line('to run it to its end:')
        self._out.line(place.command('runs', 'resume', run_id, target=True), indent=2)
        return Exit.PAUSED

    def _step_command(self, run_id: str) -> str:
        place = self._setting.place
        return place.command('step', place.target, '--resume', run_id, *place.options)

    async def _finish(self) -> Exit:
        """Say how the run ended."""
        run = self._run
        records = await self._setting.journal.load(run.run_id)
        status = status_of(records[-1].entry)
        output = run.result.output if run.result is not None else None
        error = None if self._error is None else one_line(self._error)
        place, before = self._setting.place, not self._moved
        LiveView(self._out).finish(Report(run.run_id, status, records, output, error, place, ended_before=before))
        if status == 'failed' and self._setting.place.journal:
            self._out.line('')
            self._out.line('to try the node it failed in once more:')
            at = str(_last_node(records))
            self._out.line(self._setting.place.command('runs', 'fork', run.run_id, '--at', at), indent=2)
        return exit_of(status, self._error, records)


def _last_node(records: list[Record]) -> int:
    return next((r.seq for r in reversed(records) if isinstance(r.entry, Entered)), 1)

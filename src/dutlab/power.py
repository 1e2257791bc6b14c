"""Power switches of hosts: plugs, distribution units, management controllers and commands that switch power and report its state.

Requests follow the makers' documents: Shelly Gen1 (`/relay/N`), Shelly Gen2 and later (`Switch.Set`), Tasmota (`PowerN`), Ubiquiti's
mFi mPower (`sensors/mfi.py`), IPMI 2.0 chassis control (section 28.3) by ipmitool, Redfish ComputerSystem.Reset (DSP0266),
and an SNMP SET of one object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import quote, urlsplit

from dutlab.bounds import ANSWER_BYTES, SWITCH_S, SWITCH_TRIES
from dutlab.errors import HostError, InputError
from dutlab.hosts.bounded import run_bounded
from dutlab.reason import reason_in
from dutlab.sensors import mfi
from dutlab.sensors.asked import PATIENCE_S, SHOWN, Refused, secret
from dutlab.sensors.meter import number_at
from dutlab.sensors.web import get_json
from dutlab.spec.devices import secrets_of
from dutlab.spec.power import CommandPower, IpmiPower, PlugPower, RedfishPower, SnmpPower
from dutlab.spec.switch import PowerSpec
from dutlab.spec.testbed import Testbed

T = TypeVar("T")

_LOOK_S, _AGAIN_S = 0.5, 5.0


class Switch(Protocol):
    """Power switch of one host. All methods raise Refused, OSError, ValueError."""

    def is_on(self) -> bool:
        """Return the state that the switch reports, which may lag behind the command."""

    def turn(self, *, on: bool) -> None:
        """Send the command; do not wait for its effect."""


class HostPower:
    """Power control of one host, within the limits that the testbed file sets."""

    def __init__(self, host: str, spec: PowerSpec) -> None:
        """Check that the switch's secrets are known. Raises HostError where one is missing."""
        for variable in secrets_of(spec):
            secret(variable)
        self._host, self._spec = host, spec
        self._switch = _SWITCHES[type(spec)](spec)

    @classmethod
    def of(cls, testbed: Testbed, host: str) -> Self:
        """Return the power control of a host. Raises InputError for an unknown host or one without switch, HostError as the constructor."""
        if host not in testbed.hosts:
            raise InputError(f"testbed {testbed.name} has no host {host}", remedy=f"it has {', '.join(testbed.hosts)}")
        if (spec := testbed.hosts[host].power) is None:
            raise InputError(f"testbed {testbed.name} does not state what switches {host}", remedy=f"write `power:` below {host}")
        return cls(host, spec)

    def is_on(self) -> bool:
        """Return whether the switch reports power on. Raises HostError."""
        return self._tried(self._switch.is_on)

    def turn(self, *, on: bool) -> None:
        """Switch, and return once the new state is reported. Raises HostError, and InputError where the testbed does not allow it."""
        if not self._spec.may_switch:
            raise InputError(f"its testbed does not allow to switch {self._host}", remedy="write `may-switch: yes` below its `power:`")
        self._tried(lambda: self._switch.turn(on=on))
        until_s = time.monotonic() + SWITCH_S
        while self.is_on() is not on:
            if time.monotonic() > until_s:
                raise HostError(
                    f"its switch should turn {_word(on=on)}, and reports {_word(on=not on)} after {SWITCH_S:g} s", host=self._host
                )
            time.sleep(_LOOK_S)

    def switch_on(self) -> None:
        """Switch the host on if it is off; try again while its switch does not answer. Raises as turn(), with the remedy by hand."""
        for attempt in range(1, SWITCH_TRIES + 1):
            try:
                if not self.is_on():
                    self.turn(on=True)
            except HostError as error:
                if attempt == SWITCH_TRIES:
                    remedy = "switch it on by hand; then `dutlab undo RUN` restores the rest"
                    raise HostError(
                        f"{error.what.removeprefix(f'{self._host}: ')} ({attempt} tries)", host=self._host, remedy=remedy
                    ) from error
                time.sleep(_AGAIN_S)
            else:
                return

    def cycle(self) -> None:
        """Switch off, wait for the time of `off-for`, switch on. Raises as turn()."""
        self.turn(on=False)
        time.sleep(self._spec.off_for)
        self.switch_on()

    def _tried(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except TimeoutError as error:
            raise HostError(f"its switch did not answer within {PATIENCE_S:g} s", host=self._host) from error
        except (Refused, OSError, ValueError) as error:
            raise HostError(f"its switch: {error}", host=self._host) from error
        except (AttributeError, TypeError, LookupError, ArithmeticError) as error:  # JSON with unexpected types
            raise HostError(f"its switch gave an invalid answer ({type(error).__name__})", host=self._host) from error


def _word(*, on: bool) -> str:
    return "on" if on else "off"


class PlugSwitch:
    """An outlet on the network."""

    def __init__(self, spec: PlugPower) -> None:
        self._spec = spec
        self._root = urlsplit(spec.url).path.rstrip("/")

    def is_on(self) -> bool:
        """Return the reported state."""
        n = self._spec.channel
        match self._spec.model:
            case "shelly":
                return _state(self._get(f"/rpc/Switch.GetStatus?id={n}"), "output")
            case "shelly-gen1":
                return _state(self._get(f"/relay/{n}"), "ison")
            case "tasmota":
                return _tasmota(self._get(self._command(f"Power{n + 1}")), n)
            case "mfi":
                return _mfi(mfi.MfiSession(self._spec).ask(mfi.SENSORS), n)

    def turn(self, *, on: bool) -> None:
        """Switch the outlet."""
        n = self._spec.channel
        match self._spec.model:
            case "shelly":
                get_json(self._spec, f"{self._root}/rpc/Switch.Set", method="POST", body={"id": n, "on": on})
            case "shelly-gen1":
                self._get(f"/relay/{n}?turn={_word(on=on)}")
            case "tasmota":
                self._get(self._command(f"Power{n + 1} {_word(on=on)}"))
            case "mfi":
                mfi.MfiSession(self._spec).ask(f"{mfi.SENSORS}/{n + 1}", method="PUT", form=f"output={int(on)}")

    def _command(self, words: str) -> str:
        """Return the path of a command. It contains the login, since a Tasmota takes it nowhere else."""
        spec = self._spec
        login = f"&user={quote(spec.user)}&password={quote(secret(spec.password_from or ''))}" if spec.user is not None else ""
        return f"/cm?cmnd={quote(words)}{login}"

    def _get(self, target: str) -> Any:  # noqa: ANN401 any JSON
        return get_json(self._spec, f"{self._root}{target}")


def _state(document: Any, name: str) -> bool:  # noqa: ANN401
    state = document.get(name) if isinstance(document, dict) else None
    if not isinstance(state, bool):
        raise ValueError(f"it answered {str(document)[:SHOWN]!r}, which does not state `{name}`")  # noqa: TRY004 -- an answer, not a call
    return state


def _tasmota(document: Any, channel: int) -> bool:  # noqa: ANN401
    """Return the state of an outlet. A Tasmota with one outlet calls it POWER, others count from POWER1."""
    answer = document if isinstance(document, dict) else {}
    state = answer.get(f"POWER{channel + 1}", answer.get("POWER") if channel == 0 else None)
    if state not in ("ON", "OFF"):
        raise ValueError(f"it answered {str(document)[:SHOWN]!r}, which does not state POWER{channel + 1}")
    return bool(state == "ON")


def _mfi(document: Any, channel: int) -> bool:  # noqa: ANN401
    state, _ = number_at(document, f"sensors[{channel}].output")
    if state not in (0, 1):
        raise ValueError(f"it answered {str(document)[:SHOWN]!r}, which does not state `output` of outlet {channel}")
    return state == 1


class SnmpSwitch:
    """An outlet of a distribution unit."""

    def __init__(self, spec: SnmpPower) -> None:
        self._spec = spec

    def is_on(self) -> bool:
        """Return the reported state."""
        from dutlab.sensors.snmp import asked_once  # noqa: PLC0415 -- pysnmp is an extra

        spec = self._spec
        teller = spec.model_copy(update={"oid": spec.state or spec.oid})
        state = asked_once(teller)
        if state not in (spec.told_on, spec.told_off):
            raise ValueError(f"{teller.oid} is {state:g}, which is neither on ({spec.told_on}) nor off ({spec.told_off})")
        return state == spec.told_on

    def turn(self, *, on: bool) -> None:
        """Set the object that switches the outlet."""
        from dutlab.sensors.snmp import asked_once  # noqa: PLC0415 -- as above

        asked_once(self._spec, self._spec.on if on else self._spec.off)


class IpmiSwitch:
    """Management controller of a server, by ipmitool."""

    def __init__(self, spec: IpmiPower) -> None:
        self._spec = spec

    def is_on(self) -> bool:
        """Return the reported state."""
        output = self._ask("status").strip()
        if output not in ("Chassis Power is on", "Chassis Power is off"):
            raise ValueError(f"ipmitool printed {output[:SHOWN]!r}")
        return output.endswith("on")

    def turn(self, *, on: bool) -> None:
        """Switch the server. Off is immediate: the operating system does not shut down first."""
        self._ask(_word(on=on))

    def _ask(self, word: str) -> str:
        from dutlab.sensors.ipmi import IpmiSession  # noqa: PLC0415 -- ipmitool may be missing and not needed

        status, output, why = IpmiSession(self._spec, "OPERATOR").ask("chassis", "power", word)
        if status != 0:
            raise ValueError(f"ipmitool ended with status {status}: {reason_in(why) or 'no output'}")
        return output


class RedfishSwitch:
    """Management controller of a server, by Redfish."""

    def __init__(self, spec: RedfishPower) -> None:
        self._spec = spec
        self._root = urlsplit(spec.url).path.rstrip("/")
        self._system = spec.system

    def is_on(self) -> bool:
        """Return the reported state."""
        state = self._get(self._named()).get("PowerState")
        if state not in ("On", "Off", "PoweringOn", "PoweringOff"):
            raise ValueError(f"its PowerState is {str(state)[:SHOWN]!r}")
        return state in ("On", "PoweringOff")

    def turn(self, *, on: bool) -> None:
        """Switch the server. Off is immediate: the operating system does not shut down first."""
        reset = self._get(self._named()).get("Actions", {}).get("#ComputerSystem.Reset", {})
        target = reset.get("target") if isinstance(reset, dict) else None
        if not isinstance(target, str) or not target.startswith("/redfish/"):
            raise ValueError(f"{self._system} offers no ComputerSystem.Reset")
        get_json(self._spec, f"{self._root}{target}", method="POST", body={"ResetType": "On" if on else "ForceOff"})

    def _named(self) -> str:
        if self._system is None:
            members = self._get("/redfish/v1/Systems").get("Members")
            names = [str(m.get("@odata.id")) for m in members if isinstance(m, dict)] if isinstance(members, list) else []
            if len(names) != 1:
                raise ValueError(f"it has {len(names)} systems; name one as `system:`: {', '.join(names[:8]) or 'none'}")
            self._system = names[0]
        return self._system

    def _get(self, target: str) -> Mapping[str, Any]:
        document = get_json(self._spec, f"{self._root}{target}")
        if not isinstance(document, dict):
            raise ValueError(f"{target} is {str(document)[:SHOWN]!r}, not an object")  # noqa: TRY004 -- an answer, not a call
        return document


class CommandSwitch:
    """Power switch by shell commands on this machine."""

    def __init__(self, spec: CommandPower) -> None:
        self._spec = spec

    def is_on(self) -> bool:
        """Return the state that the command prints."""
        output = self._run(self._spec.status).strip()
        if output not in ("on", "off"):
            raise ValueError(f"`{self._spec.status}` printed {output[:SHOWN]!r}, neither on nor off")
        return output == "on"

    def turn(self, *, on: bool) -> None:
        """Run the command for the new state."""
        self._run(self._spec.on if on else self._spec.off)

    def _run(self, command: str) -> str:
        try:
            done = run_bounded(["sh", "-c", command], timeout_s=SWITCH_S, most_bytes=ANSWER_BYTES)
        except TimeoutError as error:
            raise ValueError(f"`{command}` did not end within {SWITCH_S:g} s") from error
        if done.status != 0:
            raise ValueError(f"`{command}` ended with status {done.status}: {done.stderr.strip()[-SHOWN:]}")
        return done.stdout


_SWITCHES: Mapping[type[PowerSpec], Callable[[Any], Switch]] = {
    PlugPower: PlugSwitch,
    SnmpPower: SnmpSwitch,
    IpmiPower: IpmiSwitch,
    RedfishPower: RedfishSwitch,
    CommandPower: CommandSwitch,
}

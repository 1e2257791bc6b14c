"""Findings about Windows settings: firewall, adapter settings and drivers, power scheme."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from dutlab.analysis.doctor.commands import is_windows, powershell_quoted, read_property, set_property
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, unknown_price
from dutlab.analysis.doctor.inventory import Inventory

OLD_YEARS = 3
"""Age of an old driver, our choice: card vendors publish drivers at least once a year."""
_INBOX_OF_MICROSOFT = "2006-06-21"
"""Microsoft's own drivers all have this date, regardless of their age."""
_MODERATION = "*InterruptModeration"
_FASTEST = "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c"


def windows_firewall(p: Inventory) -> Iterator[Finding]:
    """Find enabled firewall profiles on hosts other than the DUT."""
    for host in p.facts:
        profiles = p.fact(host, "firewall", "profiles_on")
        on = [str(name) for name in profiles] if isinstance(profiles, list) else []
        if on and host != p.dut:
            names = ",".join(on)
            yield Finding(
                "firewall-in-the-way",
                f"the Windows firewall is on ({', '.join(on)}): it drops unrequested packets, pings too, and looks at every packet",
                unknown_price("it depends on the rules, and on filters that other programs added"),
                (host,),
                (Evidence(host, "Get-NetFirewallProfile", f"Enabled: {', '.join(on)}"),),
                (CureStep(host, f"Set-NetFirewallProfile -Name {names} -Enabled False"),),
                (CureStep(host, f"Set-NetFirewallProfile -Name {names} -Enabled True"),),
            )


def adapter_moderation(p: Inventory) -> Iterator[Finding]:
    """Find adapters with interrupt moderation."""
    for port, card in p.cards():
        if is_windows(p, port.host) and card.get("interrupt_moderation") is True:
            yield Finding(
                "interrupt-moderation",
                "the adapter waits before it interrupts: latencies grow by an amount that its driver chooses",
                Price(None, "", "none on rates: fewer interrupts may even raise them"),
                (str(port),),
                (Evidence(port.host, read_property(port, _MODERATION), "1"),),
                (CureStep(port.host, set_property(port, _MODERATION, 0)),),
                (CureStep(port.host, set_property(port, _MODERATION, 1)),),
            )


def driver_age(p: Inventory) -> Iterator[Finding]:
    """Find adapter drivers that are OLD_YEARS or older."""
    for port, card in p.cards():
        driver_day, today = _day(card.get("driver_date")), _day(p.fact(port.host, "today"))
        if driver_day is None or today is None or card.get("driver_date") == _INBOX_OF_MICROSOFT:
            continue
        years = (today - driver_day).days / 365.25
        if years >= OLD_YEARS:
            yield Finding(
                "driver-age",
                f"the adapter's driver is {years:.0f} years old",
                unknown_price("the driver's release notes list what its vendor has fixed since"),
                (str(port),),
                (Evidence(port.host, f"Get-NetAdapter -Name {powershell_quoted(port.interface)}", f"DriverDate {driver_day}"),),
                (CureStep(port.host, "by hand: install the vendor's current driver"),),
                (CureStep(port.host, "by hand: roll the driver back in the device manager"),),
            )


def power_scheme(p: Inventory) -> Iterator[Finding]:
    """Find power schemes other than High performance, which reduce the clock and let links sleep."""
    for host in p.facts:
        now, guid = p.text(host, "cpu", "governor"), p.text(host, "cpu", "power_scheme")
        if is_windows(p, host) and now and guid and guid != _FASTEST:
            yield Finding(
                "governor",
                f"the power scheme is {now}",
                unknown_price("under full load the clock rises within milliseconds; the loss for bursts depends on their length"),
                (host,),
                (Evidence(host, "powercfg /getactivescheme", f"{guid} ({now})"),),
                (CureStep(host, f"powercfg.exe /setactive {_FASTEST}"),),
                (CureStep(host, f"powercfg.exe /setactive {guid}"),),
            )


def _day(text: object) -> date | None:
    try:
        return date.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None

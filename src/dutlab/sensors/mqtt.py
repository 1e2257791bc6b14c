"""Sensor `mqtt`: values that a meter publishes to a broker (MQTT 3.1.1), as a plain number or in JSON."""

from __future__ import annotations

import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from dutlab.bounds import MESSAGE_BYTES, MESSAGES
from dutlab.outside import json_of
from dutlab.sensors import asked
from dutlab.sensors.asked import SHOWN, PolledSensor, Refused, secret
from dutlab.sensors.meter import number_at
from dutlab.sensors.oddities import Amount
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.sensors import MqttSensor

_NOT_LET_IN = ("Bad user name or password", "Not authorized", "Banned")


class _BoundedClient(paho.Client):
    """Client that closes the connection at a message larger than any meter sends. paho accepts messages of up to 256 MB."""

    def __init__(self, hear: Callable[[Exception], None]) -> None:
        super().__init__(CallbackAPIVersion.VERSION2)
        self._hear_fault = hear

    def _sock_recv(self, bufsize: int) -> bytes:
        """Receive bytes. `bufsize` is the rest of the packet, by the length in its header. Raises OSError."""
        if bufsize > MESSAGE_BYTES:
            self._hear_fault(ValueError(f"the broker sends a message of {bufsize} bytes; at most {MESSAGE_BYTES} are taken"))
            raise ConnectionError
        return super()._sock_recv(bufsize)


class Subscription:
    """Source of values published from now on; a ReadingSource. Retained messages are ignored, because they are from before the trial."""

    def __init__(self, spec: MqttSensor) -> None:
        self._spec = spec
        self._heard: deque[bytes | Exception] = deque(maxlen=MESSAGES)
        self._news = threading.Condition()
        self._client = _BoundedClient(self._hear)
        if spec.user is not None:
            self._client.username_pw_set(spec.user, secret(spec.password_from or ""))
        if spec.tls:
            self._client.tls_set_context(ssl.create_default_context())
        self._client.on_connect = self._connected
        self._client.on_message = self._came
        self._client.connect(*spec.address.pair)
        self._client.loop_start()

    def read(self) -> Mapping[str, Amount]:
        """Return the newest value since the last call, or wait for the next. Raises Refused, OSError, ValueError."""
        spec = self._spec
        with self._news:
            if not self._news.wait_for(lambda: self._heard, max(asked.PATIENCE_S, 3 * spec.every)):
                raise TimeoutError
            newest = self._heard.pop()
            self._heard.clear()
        if isinstance(newest, Exception):
            raise newest
        text = newest.decode("utf-8", "replace")
        try:
            document = json_of(newest)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{spec.topic} says {text[:SHOWN]!r}, which is neither a number nor JSON") from error
        number, _ = number_at({"all": document}, "all") if spec.value is None else number_at(document, spec.value)
        if number is None:
            raise ValueError(f"{spec.topic} says {text[:SHOWN]!r}, which has no number{f' at {spec.value}' if spec.value else ''}")
        return {spec.name: Amount(number * spec.scale, spec.unit)}

    def close(self) -> None:
        """Disconnect from the broker."""
        self._client.disconnect()
        self._client.loop_stop()

    def _connected(self, client: paho.Client, _data: object, _flags: object, reason: object, _properties: object) -> None:
        if str(reason) in _NOT_LET_IN:
            self._hear(Refused(f"the broker refuses access ({reason})"))
        elif str(reason) != "Success":
            self._hear(ConnectionError(f"the broker answers {reason}"))
        else:
            client.subscribe(self._spec.topic)

    def _came(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        if not message.retain:
            self._hear(bytes(message.payload))

    def _hear(self, heard: bytes | Exception) -> None:
        with self._news:
            self._heard.append(heard)
            self._news.notify()


def make(spec: MqttSensor, site: SensorSite) -> PolledSensor:
    """Return the sensor that `spec` describes; it always runs on this machine."""
    del site
    return PolledSensor(spec, lambda: Subscription(spec))

"""A P4Runtime server in front of a running embedded switch: it turns gRPC requests into commands and packets (P4Runtime 1.4)."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from ..control import Control, ControlError
from .arbitration import Arbitration, Client
from .entities import Entities
from .errors import P4RuntimeError, denied, invalid, not_found, status_of, unimplemented
from .packets import ControllerPort, packet_in, packet_out
from .pipeline import difference, require

API_VERSION = "1.4.0"
STREAMS, REQUESTS = 64, 8  # clients, each of which keeps a thread, and requests at a time
BATCH = 100  # entities in one ReadResponse
POLL_SECONDS = 0.1  # between looks at idle entries and digests
CODES = {code.value[0]: code for code in grpc.StatusCode}
SET, GET = p4runtime_pb2.SetForwardingPipelineConfigRequest, p4runtime_pb2.GetForwardingPipelineConfigRequest
Message = p4runtime_pb2.StreamMessageResponse


class P4RuntimeServer(p4runtime_pb2_grpc.P4RuntimeServicer):
    """Serves one switch. It runs the program of `info` from the start; a client may set no other.

    `packets` is the socket of the switch's port to the controller: without it there is no packet-in and packet-out.
    """

    def __init__(self, info: Any, control: Control, device_id: int = 0, packets: Path | None = None) -> None:
        self.info, self.control = info, control
        self.arbitration = Arbitration(device_id)
        self.entities: Entities | None = None
        self.config = p4runtime_pb2.ForwardingPipelineConfig()
        self.headers = {header.preamble.name: header for header in info.controller_packet_metadata}
        self.lock = threading.RLock()  # of the switch and of what is known of it
        self.ended = threading.Event()
        self.streams = 0
        self.port = ControllerPort(packets, self._packet_in) if packets is not None else None
        self.poller = threading.Thread(target=self._poll, daemon=True)
        self.server = grpc.server(ThreadPoolExecutor(STREAMS + REQUESTS), options=[("grpc.so_reuseport", 0)])
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(self, self.server)

    def start(self, addresses: Sequence[str]) -> None:
        """Listen on each address, such as 127.0.0.1:50051 or unix:PATH. Raises OSError."""
        for address in addresses:
            try:
                bound = self.server.add_insecure_port(address)
            except RuntimeError:
                bound = 0
            if not bound:
                raise OSError(f"cannot listen on {address}: another process may be there; choose another address")
        self.server.start()
        self.poller.start()

    def stop(self) -> None:
        """End all streams, and close what was opened."""
        self.ended.set()
        for client in list(self.arbitration.clients):
            client.messages.put(None)
        self.server.stop(grace=1).wait()
        if self.poller.is_alive():
            self.poller.join()
        if self.port is not None:
            self.port.close()

    # --- requests

    def Capabilities(self, request: Any, context: Any) -> Any:  # noqa: N802 (the service's name)
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self.lock:
            try:
                self._check_writer(request)
                self._set_pipeline(request)
            except P4RuntimeError as error:
                _abort(context, error)
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def _set_pipeline(self, request: Any) -> None:
        if request.action == SET.COMMIT:
            raise unimplemented("a pipeline is saved and committed in one: use VERIFY_AND_COMMIT")
        require(
            0 < request.action <= SET.RECONCILE_AND_COMMIT, "the action of a request to set the pipeline is missing, or unknown"
        )
        reason = difference(self.info, request.config.p4info)
        if reason is not None:
            raise invalid(f"the switch runs another program than the P4Info is of: {reason}")
        if request.action == SET.VERIFY:
            return
        if request.action == SET.VERIFY_AND_SAVE:
            raise unimplemented("a pipeline is saved and committed in one: use VERIFY_AND_COMMIT")
        if request.action == SET.RECONCILE_AND_COMMIT and self.entities is not None:
            self.config.CopyFrom(request.config)  # the same program: what is there stays
            return
        try:
            if self.entities is not None:
                self.entities.replication.clear()
            self.control.command("reset_state")
        except ControlError as error:
            raise P4RuntimeError(code_pb2.UNAVAILABLE, str(error)) from None
        self.config.CopyFrom(request.config)
        self.entities = Entities(self.info, self.control)

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        made = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        with self.lock:
            try:
                self._check_device(request)
                self._known()
            except P4RuntimeError as error:
                _abort(context, error)
            if self.config.HasField("cookie"):
                made.config.cookie.CopyFrom(self.config.cookie)
            if request.response_type in (GET.ALL, GET.P4INFO_AND_COOKIE):
                made.config.p4info.CopyFrom(self.config.p4info)
            if request.response_type in (GET.ALL, GET.DEVICE_CONFIG_AND_COOKIE):
                made.config.p4_device_config = self.config.p4_device_config
        return made

    def Write(self, request: Any, context: Any) -> Any:  # noqa: N802
        errors: list[P4RuntimeError | None] = []
        with self.lock:
            try:
                self._check_writer(request)
                if request.atomicity != p4runtime_pb2.WriteRequest.CONTINUE_ON_ERROR:
                    raise unimplemented("batches are not atomic: use CONTINUE_ON_ERROR")
                entities = self._known()
            except P4RuntimeError as error:
                _abort(context, error)
            for update in request.updates:
                errors.append(_attempt(entities, update))
            if any(error is not None and error.code == code_pb2.UNAVAILABLE for error in errors):
                self.entities = None  # it is unknown what the switch has, or whether it is the same
        if any(errors):
            status = status_of(errors)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, status.message)
        return p4runtime_pb2.WriteResponse()

    def Read(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        found: list[Any] = []
        with self.lock:
            try:
                self._check_device(request)
                entities = self._known()
                for wanted in request.entities:
                    found += entities.read(wanted)
            except P4RuntimeError as error:
                _abort(context, error)
            except ControlError as error:
                self.entities = None  # as in Write
                context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        for at in range(0, len(found), BATCH):
            yield p4runtime_pb2.ReadResponse(entities=found[at : at + BATCH])

    def _check_device(self, request: Any) -> None:
        if request.device_id != self.arbitration.device_id:
            raise not_found(f"this is device {self.arbitration.device_id}, not {request.device_id}")

    def _check_writer(self, request: Any) -> None:
        self._check_device(request)
        if request.role or request.role_id:
            raise unimplemented("roles: leave the role out")
        if not self.arbitration.may_write(request):
            raise denied("only the primary client writes: say so with a MasterArbitrationUpdate, and give its election id")

    def _known(self) -> Entities:
        if self.entities is None:
            raise P4RuntimeError(code_pb2.FAILED_PRECONDITION, "no pipeline is set yet: send SetForwardingPipelineConfig first")
        return self.entities

    # --- the stream

    def StreamChannel(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        client, refused = Client(), []
        with self.lock:
            if self.streams == STREAMS:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{STREAMS} clients are connected")
            self.streams += 1

        def listen() -> None:
            try:
                for request in requests:
                    self._take(client, request)
            except P4RuntimeError as error:
                refused.append(error)
            except Exception:  # gRPC raises many things when a client goes
                pass
            client.messages.put(None)

        threading.Thread(target=listen, daemon=True).start()
        try:
            while (message := client.messages.get()) is not None:
                yield message
        finally:
            self.arbitration.leave(client)
            with self.lock:
                self.streams -= 1
        if refused:
            _abort(context, refused[0])

    def _take(self, client: Client, request: Any) -> None:
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self.arbitration.update(client, request.arbitration)
        elif kind == "packet":
            try:
                self._packet_out(client, request.packet)
            except P4RuntimeError as error:
                details = p4runtime_pb2.PacketOutError(packet_out=request.packet)
                client.messages.put(_stream_error(error, packet_out=details))
        elif kind != "digest_ack":
            other = p4runtime_pb2.StreamOtherError(other=request.other)
            client.messages.put(_stream_error(unimplemented(f"a message of kind {kind}"), other=other))

    def _packet_out(self, client: Client, message: Any) -> None:
        if client is not self.arbitration.primary():
            raise denied("only the primary client sends packets")
        self._known()
        if self.port is None:
            raise P4RuntimeError(code_pb2.FAILED_PRECONDITION, "the switch has no port to a controller")
        self.port.send(packet_out(self.headers.get("packet_out"), message))

    def _packet_in(self, data: bytes) -> None:
        message = packet_in(self.headers.get("packet_in"), data)
        if message is not None:
            self.arbitration.send(Message(packet=message))

    def _poll(self) -> None:
        while not self.ended.wait(POLL_SECONDS):
            try:
                with self.lock:
                    idle = self.entities.idle.poll() if self.entities is not None else []
                    digests = self.entities.digests.poll() if self.entities is not None else []
            except P4RuntimeError:
                continue  # an entry has gone meanwhile
            except ControlError:
                self.entities = None  # as in Write
                continue
            except Exception:
                traceback.print_exc()  # what comes next is still told
                continue
            for one in idle:
                self.arbitration.send(Message(idle_timeout_notification=one))
            for one in digests:
                self.arbitration.send(Message(digest=one))


def _attempt(entities: Entities, update: Any) -> P4RuntimeError | None:
    """Make an update; what it is refused for."""
    try:
        entities.write(update)
    except P4RuntimeError as error:
        return error
    except ControlError as error:
        return P4RuntimeError(code_pb2.UNAVAILABLE, str(error))
    except Exception as error:
        traceback.print_exc()
        return P4RuntimeError(code_pb2.INTERNAL, f"the server failed ({type(error).__name__}), which is a defect of it")
    return None


def _abort(context: Any, error: P4RuntimeError) -> None:
    context.abort(CODES[error.code], str(error))


def _stream_error(error: P4RuntimeError, **details: Any) -> Any:
    return Message(error=p4runtime_pb2.StreamError(canonical_code=error.code, message=str(error), space="inalab", **details))

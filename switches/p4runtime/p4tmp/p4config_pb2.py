"""P4DeviceConfig: how controllers wrap BMv2's JSON. The embedded switch runs its program from the start, and takes any."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_FILE = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
_CONFIG = _FILE.message_type.add(name="P4DeviceConfig")
_CONFIG.field.add(name="reassign", number=1, type=_FIELD.TYPE_BOOL, label=_FIELD.LABEL_OPTIONAL)
_CONFIG.field.add(name="device_data", number=3, type=_FIELD.TYPE_BYTES, label=_FIELD.LABEL_OPTIONAL)
_POOL = descriptor_pool.Default()
_POOL.AddSerializedFile(_FILE.SerializeToString())

P4DeviceConfig: Any = message_factory.MessageFactory(_POOL).GetPrototype(_POOL.FindMessageTypeByName("p4.tmp.P4DeviceConfig"))

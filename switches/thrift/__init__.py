"""BMv2's Thrift services in front of an embedded switch: for simple_switch_CLI, P4-utils and anyone's controllers, unchanged."""

"""SwitchML packet by packet (NSDI '21, section 3): pools of slots that results clock."""

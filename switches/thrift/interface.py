"""The remote procedures of BMv2's control plane, by service, as behavioral-model's interface files number their parts.

A type's fields, a call's parameters and an enumeration's values count from 1, but for those that say otherwise. A service's calls
are listed by the error that they may raise, each with its result before its name; cxt is i32 cxt_id. binding.py makes classes of
this.
"""

ENUMERATIONS = {
    "BmMatchParamType": "EXACT=0 LPM TERNARY VALID RANGE",
    "TableOperationErrorCode": """
        TABLE_FULL INVALID_HANDLE EXPIRED_HANDLE COUNTERS_DISABLED METERS_DISABLED AGEING_DISABLED INVALID_TABLE_NAME
        INVALID_ACTION_NAME WRONG_TABLE_TYPE INVALID_MBR_HANDLE MBR_STILL_USED MBR_ALREADY_IN_GRP MBR_NOT_IN_GRP
        INVALID_GRP_HANDLE GRP_STILL_USED EMPTY_GRP DUPLICATE_ENTRY BAD_MATCH_KEY INVALID_METER_OPERATION
        DEFAULT_ACTION_IS_CONST DEFAULT_ENTRY_IS_CONST NO_DEFAULT_ENTRY INVALID_ACTION_PROFILE_NAME NO_ACTION_PROFILE_SELECTION
        IMMUTABLE_TABLE_ENTRIES BAD_ACTION_DATA NO_TABLE_KEY ERROR=100""",
    "CounterOperationErrorCode": "INVALID_COUNTER_NAME INVALID_INDEX ERROR",
    "SwapOperationErrorCode": "CONFIG_SWAP_DISABLED ONGOING_SWAP NO_ONGOING_SWAP",
    "MeterOperationErrorCode": (
        "INVALID_METER_NAME INVALID_INDEX BAD_RATES_LIST INVALID_INFO_RATE_VALUE INVALID_BURST_SIZE_VALUE ERROR"
    ),
    "RegisterOperationErrorCode": "INVALID_REGISTER_NAME INVALID_INDEX ERROR",
    "ParseVSetOperationErrorCode": "INVALID_PARSE_VSET_NAME ERROR",
    "LearnOperationErrorCode": "INVALID_LIST_ID INVALID_LIST_NAME ERROR",
    "DevMgrErrorCode": "ERROR",
    "CrcErrorCode": "INVALID_CALCULATION_NAME WRONG_TYPE_CALCULATION INVALID_CONFIG",
    "ToeplitzHashErrorCode": "INVALID_CALCULATION_NAME WRONG_TYPE_CALCULATION INVALID_KEY",
    "BmActionEntryType": "NONE=0 ACTION_DATA MBR_HANDLE GRP_HANDLE",
    "BmResourceType": "MATCH_TABLE=0 ACTION_PROFILE COUNTER METER REGISTER LEARNING_LIST",
    "IdLookupErrorCode": "INVALID_RESOURCE_TYPE=0 INVALID_RESOURCE_NAME",
    "McOperationErrorCode": "TABLE_FULL INVALID_MGID INVALID_MGRP_HANDLE INVALID_L1_HANDLE ERROR",
    "MirroringOperationErrorCode": "SESSION_NOT_FOUND",
}

STRUCTS = {
    "BmMatchParamExact": "binary key",
    "BmMatchParamLPM": "binary key, i32 prefix_length",
    "BmMatchParamTernary": "binary key, binary mask",
    "BmMatchParamValid": "bool key",
    "BmMatchParamRange": "binary start, binary end_",
    "BmMatchParam": """BmMatchParamType type, BmMatchParamExact exact, BmMatchParamLPM lpm, BmMatchParamTernary ternary,
        BmMatchParamValid valid, BmMatchParamRange range""",
    "BmAddEntryOptions": "i32 priority",
    "BmCounterValue": "i64 bytes, i64 packets",
    "BmMeterRateConfig": "double units_per_micros, i32 burst_size",
    "DevMgrPortInfo": "i32 port_num, string iface_name, bool is_up, map<string,string> extra",
    "BmCrc16Config": "i16 polynomial, i16 initial_remainder, i16 final_xor_value, bool data_reflected, bool remainder_reflected",
    "BmCrc32Config": "i32 polynomial, i32 initial_remainder, i32 final_xor_value, bool data_reflected, bool remainder_reflected",
    "BmActionEntry": (
        "BmActionEntryType action_type, string action_name, list<binary> action_data, i32 mbr_handle, i32 grp_handle"
    ),
    "BmMtEntryLife": "i32 timeout_ms, i32 time_since_hit_ms",
    "BmMtEntry": """list<BmMatchParam> match_key, BmAddEntryOptions options, i32 entry_handle, BmActionEntry action_entry,
        BmMtEntryLife life""",
    "BmMtActProfMember": "i32 mbr_handle, string action_name, list<binary> action_data",
    "BmMtActProfGroup": "i32 grp_handle, list<i32> mbr_handles",
    "BmConfig": "i64 device_id, i32 thrift_port, string notifications_socket, string elogger_socket, string debugger_socket",
    "MirroringSessionConfig": "i32 port, i32 mgid",
}

ERRORS = {
    "InvalidTableOperation": "TableOperationErrorCode code",
    "InvalidCounterOperation": "CounterOperationErrorCode code",
    "InvalidSwapOperation": "SwapOperationErrorCode code",
    "InvalidMeterOperation": "MeterOperationErrorCode code",
    "InvalidRegisterOperation": "RegisterOperationErrorCode code",
    "InvalidParseVSetOperation": "ParseVSetOperationErrorCode code",
    "InvalidLearnOperation": "LearnOperationErrorCode code",
    "InvalidDevMgrOperation": "DevMgrErrorCode code",
    "InvalidCrcOperation": "CrcErrorCode code",
    "InvalidToeplitzHashOperation": "ToeplitzHashErrorCode code",
    "InvalidIdLookup": "IdLookupErrorCode code",
    "InvalidMcOperation": "McOperationErrorCode code",
    "InvalidMirroringOperation": "MirroringOperationErrorCode code",
}

_MULTICAST = """
    i32 bm_mc_mgrp_create(cxt, i32 mgrp)
    void bm_mc_mgrp_destroy(cxt, i32 mgrp_handle)
    i32 bm_mc_node_create(cxt, i32 rid, string port_map{lags})
    void bm_mc_node_associate(cxt, i32 mgrp_handle, i32 l1_handle)
    void bm_mc_node_dissociate(cxt, i32 mgrp_handle, i32 l1_handle)
    void bm_mc_node_destroy(cxt, i32 l1_handle)
    void bm_mc_node_update(cxt, i32 l1_handle, string port_map{lags})
    string bm_mc_get_entries(cxt)
"""

SERVICES: dict[str, dict[str, str]] = {
    "standard": {
        "InvalidTableOperation": """
            i64 bm_mt_get_num_entries(cxt, string table_name)
            void bm_mt_clear_entries(cxt, string table_name, bool reset_default_entry)
            i32 bm_mt_add_entry(cxt, string table_name, list<BmMatchParam> match_key, string action_name, list<binary>
                action_data, BmAddEntryOptions options)
            void bm_mt_set_default_action(cxt, string table_name, string action_name, list<binary> action_data)
            void bm_mt_reset_default_entry(cxt, string table_name)
            void bm_mt_delete_entry(cxt, string table_name, i32 entry_handle)
            void bm_mt_modify_entry(cxt, string table_name, i32 entry_handle, string action_name, list<binary> action_data)
            void bm_mt_set_entry_ttl(cxt, string table_name, i32 entry_handle, i32 timeout_ms)
            i32 bm_mt_act_prof_add_member(cxt, string act_prof_name, string action_name, list<binary> action_data)
            void bm_mt_act_prof_delete_member(cxt, string act_prof_name, i32 mbr_handle)
            void bm_mt_act_prof_modify_member(cxt, string act_prof_name, i32 mbr_handle, string action_name, list<binary>
                action_data)
            i32 bm_mt_act_prof_create_group(cxt, string act_prof_name)
            void bm_mt_act_prof_delete_group(cxt, string act_prof_name, i32 grp_handle)
            void bm_mt_act_prof_add_member_to_group(cxt, string act_prof_name, i32 mbr_handle, i32 grp_handle)
            void bm_mt_act_prof_remove_member_from_group(cxt, string act_prof_name, i32 mbr_handle, i32 grp_handle)
            list<BmMtActProfMember> bm_mt_act_prof_get_members(cxt, string act_prof_name)
            BmMtActProfMember bm_mt_act_prof_get_member(cxt, string act_prof_name, i32 mbr_handle)
            list<BmMtActProfGroup> bm_mt_act_prof_get_groups(cxt, string act_prof_name)
            BmMtActProfGroup bm_mt_act_prof_get_group(cxt, string act_prof_name, i32 grp_handle)
            i32 bm_mt_indirect_add_entry(cxt, string table_name, list<BmMatchParam> match_key, i32 mbr_handle, BmAddEntryOptions
                options)
            void bm_mt_indirect_modify_entry(cxt, string table_name, i32 entry_handle, i32 mbr_handle)
            void bm_mt_indirect_delete_entry(cxt, string table_name, i32 entry_handle)
            void bm_mt_indirect_set_entry_ttl(cxt, string table_name, i32 entry_handle, i32 timeout_ms)
            void bm_mt_indirect_set_default_member(cxt, string table_name, i32 mbr_handle)
            void bm_mt_indirect_reset_default_entry(cxt, string table_name)
            i32 bm_mt_indirect_ws_add_entry(cxt, string table_name, list<BmMatchParam> match_key, i32 grp_handle,
                BmAddEntryOptions options)
            void bm_mt_indirect_ws_modify_entry(cxt, string table_name, i32 entry_handle, i32 grp_handle)
            void bm_mt_indirect_ws_set_default_group(cxt, string table_name, i32 grp_handle)
            BmCounterValue bm_mt_read_counter(cxt, string table_name, i32 entry_handle)
            void bm_mt_reset_counters(cxt, string table_name)
            void bm_mt_write_counter(cxt, string table_name, i32 entry_handle, BmCounterValue value)
            void bm_mt_set_meter_rates(cxt, string table_name, i32 entry_handle, list<BmMeterRateConfig> rates)
            list<BmMeterRateConfig> bm_mt_get_meter_rates(cxt, string table_name, i32 entry_handle)
            list<BmMtEntry> bm_mt_get_entries(cxt, string table_name)
            BmMtEntry bm_mt_get_entry(cxt, string table_name, i32 entry_handle)
            BmActionEntry bm_mt_get_default_entry(cxt, string table_name)
            BmMtEntry bm_mt_get_entry_from_key(cxt, string table_name, list<BmMatchParam> match_key, BmAddEntryOptions options)""",
        "InvalidCounterOperation": """
            BmCounterValue bm_counter_read(cxt, string counter_name, i32 index)
            void bm_counter_reset_all(cxt, string counter_name)
            void bm_counter_write(cxt, string counter_name, i32 index, BmCounterValue value)""",
        "InvalidLearnOperation": """
            void bm_learning_ack(cxt, i32 list_id, i64 buffer_id, list<i32> sample_ids)
            void bm_learning_ack_buffer(cxt, i32 list_id, i64 buffer_id)
            void bm_learning_set_timeout(cxt, i32 list_id, i32 timeout_ms)
            void bm_learning_set_buffer_size(cxt, i32 list_id, i32 nb_samples)""",
        "InvalidSwapOperation": """
            void bm_load_new_config(string config_str)
            void bm_swap_configs()""",
        "InvalidMeterOperation": """
            void bm_meter_array_set_rates(cxt, string meter_array_name, list<BmMeterRateConfig> rates)
            void bm_meter_set_rates(cxt, string meter_array_name, i32 index, list<BmMeterRateConfig> rates)
            list<BmMeterRateConfig> bm_meter_get_rates(cxt, string meter_array_name, i32 index)""",
        "InvalidRegisterOperation": """
            i64 bm_register_read(cxt, string register_array_name, i32 idx)
            list<i64> bm_register_read_all(cxt, string register_array_name)
            void bm_register_write(cxt, string register_array_name, i32 index, i64 value)
            void bm_register_write_range(cxt, string register_array_name, i32 start_index, i32 end_index, i64 value)
            void bm_register_reset(cxt, string register_array_name)""",
        "InvalidParseVSetOperation": """
            void bm_parse_vset_add(cxt, string parse_vset_name, binary value)
            void bm_parse_vset_remove(cxt, string parse_vset_name, binary value)
            list<binary> bm_parse_vset_get(cxt, string parse_vset_name)
            void bm_parse_vset_clear(cxt, string parse_vset_name)""",
        "InvalidDevMgrOperation": """
            void bm_dev_mgr_add_port(string iface_name, i32 port_num, string pcap_path)
            void bm_dev_mgr_remove_port(i32 port_num)
            list<DevMgrPortInfo> bm_dev_mgr_show_ports()""",
        "": """
            BmConfig bm_mgmt_get_info()
            void bm_reset_state()
            string bm_get_config()
            binary bm_get_config_md5()
            string bm_serialize_state()""",
        "InvalidCrcOperation": """
            void bm_set_crc16_custom_parameters(cxt, string calc_name, BmCrc16Config crc16_config)
            void bm_set_crc32_custom_parameters(cxt, string calc_name, BmCrc32Config crc32_config)""",
        "InvalidToeplitzHashOperation": """
            void bm_set_toeplitz_hash_key(cxt, string calc_name, binary key)""",
        "InvalidIdLookup": """
            i32 bm_get_id_from_name(cxt, BmResourceType resource_type, string resource_name)""",
    },
    "simple_switch": {
        "": """
            i32 mirroring_mapping_add(i32 mirror_id, i32 egress_port)
            i32 mirroring_mapping_delete(i32 mirror_id)
            i32 mirroring_mapping_get_egress_port(i32 mirror_id)
            i32 set_egress_priority_queue_depth(i32 port_num, i32 priority, i32 depth_pkts)
            i32 set_egress_queue_depth(i32 port_num, i32 depth_pkts)
            i32 set_all_egress_queue_depths(i32 depth_pkts)
            i32 set_egress_priority_queue_rate(i32 port_num, i32 priority, i64 rate_pps)
            i32 set_egress_queue_rate(i32 port_num, i64 rate_pps)
            i32 set_all_egress_queue_rates(i64 rate_pps)
            i64 get_time_elapsed_us()
            i64 get_time_since_epoch_us()""",
        "InvalidMirroringOperation": """
            void mirroring_session_add(i32 mirror_id, MirroringSessionConfig config)
            void mirroring_session_delete(i32 mirror_id)
            MirroringSessionConfig mirroring_session_get(i32 mirror_id)""",
    },
    "simple_pre": {"InvalidMcOperation": _MULTICAST.format(lags="")},
    "simple_pre_lag": {
        "InvalidMcOperation": _MULTICAST.format(lags=", string lag_map")
        + "void bm_mc_set_lag_membership(cxt, i16 lag_index, string port_map)"
    },
}

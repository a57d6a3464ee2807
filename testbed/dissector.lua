-- Each protocol is called ina.NAME in filters, a field of its first header ina.NAME.FIELD, and a field of another one
-- ina.NAME.HEADER.FIELD. A header that is a list takes what is left of the datagram; its elements are ina.NAME.HEADER.value.

local MOST = 256 -- elements of a list that are shown

local function bytes_of(field)
    local first = math.floor(field.at / 8)
    return first, math.floor((field.at + field.width - 1) / 8) - first + 1
end

-- A number, or a UInt64 of Wireshark's for more than 32 bits.
local function value_of(buffer, field)
    local first, length = bytes_of(field)
    return buffer(first, length):bitfield(field.at - 8 * first, field.width)
end

local function whole_field(name, field)
    local kinds = { { 8, ProtoField.uint8 }, { 16, ProtoField.uint16 }, { 24, ProtoField.uint24 }, { 32, ProtoField.uint32 } }
    for _, kind in ipairs(kinds) do
        if field.width <= kind[1] then
            local base_ = (field.width < 32 or field.values) and base.DEC or base.DEC_HEX
            return kind[2](name, field.name, base_, field.values)
        end
    end
    return ProtoField.uint64(name, field.name, base.DEC_HEX)
end

local function element_field(name, width)
    local kinds = { [8] = ProtoField.int8, [16] = ProtoField.int16, [32] = ProtoField.int32 }
    return kinds[width](name, "value")
end

-- A field in the packet list: an enum's member, a flag that is set, or name=value.
local function in_short(field, value)
    if field.values then
        return field.values[value] or (field.name .. "=" .. value)
    elseif field.width == 1 then
        return value == 1 and field.name or nil
    end
    return field.name .. "=" .. tostring(value)
end

local function add_list(tree, buffer, header, name)
    local length = header.list / 8
    local count = math.floor(buffer:len() / length)
    local item = tree:add(header.shown, buffer()):set_text(("%s: %d integers"):format(name, count))
    for i = 0, math.min(count, MOST) - 1 do
        item:add(header.element, buffer(i * length, length)):prepend_text(("[%d] "):format(i))
    end
    if count > MOST then
        item:append_text((", the first %d of them shown"):format(MOST))
    end
    return count * length
end

-- Returns the values of the fields by name, and what to write into the packet list.
local function add_fields(tree, buffer, header)
    local values, kind, rest = {}, {}, {}
    for _, field in ipairs(header.fields) do
        local value = value_of(buffer, field)
        local first, length = bytes_of(field)
        tree:add(field.shown, buffer(first, length), value)
        values[field.name] = value
        table.insert(field.values and kind or rest, in_short(field, value))
    end
    for _, text in ipairs(rest) do
        table.insert(kind, text)
    end
    return values, table.concat(kind, " ")
end

local function next_state(state, values)
    for _, case in ipairs(state.cases) do
        local fits = true
        for i, key in ipairs(state.select) do
            fits = fits and (case[i] == false or (values[key[1]] or {})[key[2]] == case[i])
        end
        if fits then
            return case[#case]
        end
    end
end

local function dissect(protocol, buffer, pinfo, root)
    local first = protocol.ports[pinfo.dst_port] or protocol.ports[pinfo.src_port]
    local tree = root:add(protocol.shown, buffer())
    local values, offset, state = {}, 0, protocol.states[first]
    pinfo.cols.protocol = protocol.title
    while state do
        for _, name in ipairs(state.extract) do
            local header, left = protocol.headers[name], buffer:len() - offset
            if left < (header.bytes or 1) then
                tree:add_expert_info(PI_MALFORMED, PI_ERROR, ("The datagram ends before %s does"):format(name))
                return
            end
            local rest = buffer(offset):tvb()
            if header.list then
                offset = offset + add_list(tree, rest, header, name)
            else
                local short
                values[name], short = add_fields(tree, rest, header)
                if offset == 0 then
                    pinfo.cols.info = short
                end
                offset = offset + header.bytes
            end
        end
        state = protocol.states[next_state(state, values)]
    end
end

local function declare(protocol)
    local fields, leading = {}, {}
    for _, state in pairs(protocol.ports) do
        leading[protocol.states[state].extract[1] or ""] = true
    end
    for name, header in pairs(protocol.headers) do
        local prefix = "ina." .. protocol.name .. (leading[name] and "" or "." .. name)
        if header.list then
            header.shown, header.element = ProtoField.none(prefix, name), element_field(prefix .. ".value", header.list)
            table.insert(fields, header.shown)
            table.insert(fields, header.element)
        else
            for _, field in ipairs(header.fields) do
                field.shown = whole_field(prefix .. "." .. field.name, field)
                table.insert(fields, field.shown)
            end
        end
    end
    protocol.shown = Proto("ina." .. protocol.name, protocol.title .. " (inalab)")
    protocol.shown.fields = fields
    protocol.shown.dissector = function(buffer, pinfo, root)
        dissect(protocol, buffer, pinfo, root)
    end
end

for _, protocol in ipairs(protocols) do
    declare(protocol)
    for port in pairs(protocol.ports) do
        DissectorTable.get("udp.port"):add(port, protocol.shown)
    end
end

#!/usr/bin/env python3
"""Reads a recording with pyarrow and DuckDB and prints what both find, as JSON lines.

    read_back.py DIR [PERFETTO-TRACE]

tests/foreign.rs compares it with what was recorded.
"""
import json
import sys

import duckdb
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq


def by_pyarrow(root):
    data = ds.dataset(f"{root}/syscalls", partitioning="hive")
    table = data.to_table()
    groups = []
    for file in data.files:
        meta = pq.ParquetFile(file).metadata
        ts = meta.schema.names.index("ts")
        for group in range(meta.num_row_groups):
            stats = meta.row_group(group).column(ts).statistics
            groups.append((stats.min, stats.max))
            rows = pq.ParquetFile(file).read_row_group(group, columns=["ts"])["ts"]
            assert pc.min(rows).as_py() == stats.min and pc.max(rows).as_py() == stats.max
            rows = rows.combine_chunks()
            assert pc.all(pc.less_equal(rows[:-1], rows[1:])).as_py(), "not sorted by ts"
            sorting = meta.row_group(group).sorting_columns
            assert [s.column_index for s in sorting] == [ts], sorting
    paths = pc.value_counts(table["path"].cast("string")).to_pylist()
    return {
        "rows": table.num_rows,
        "bytes": pc.sum(table["bytes"]).as_py(),
        "dur": pc.sum(table["dur"]).as_py(),
        "ret": pc.sum(table["ret"]).as_py(),
        "seq": pc.sum(table["seq"]).as_py(),
        "hosts": sorted(set(table["host"].to_pylist())),
        "paths": len(paths),
        "groups": len(groups),
    }


def by_duckdb(root):
    db = duckdb.connect()
    source = f"read_parquet('{root}/syscalls/**/*.parquet', hive_partitioning = true)"
    row = db.execute(
        f"""SELECT count(*), sum(bytes)::BIGINT, sum(dur)::BIGINT, sum(ret)::BIGINT,
            sum(seq)::BIGINT, list(DISTINCT host), count(DISTINCT path) FROM {source}"""
    ).fetchone()
    names = ["rows", "bytes", "dur", "ret", "seq", "hosts", "paths"]
    return dict(zip(names, row))


def unknown_fields(message):
    """How many fields of a message, and of those in it, Perfetto does not know."""
    from google.protobuf.message import Message
    from google.protobuf.unknown_fields import UnknownFieldSet

    count = len(UnknownFieldSet(message))
    for _, value in message.ListFields():
        parts = [value] if isinstance(value, Message) else value if hasattr(value, "add") else []
        count += sum(unknown_fields(part) for part in parts)
    return count


def by_perfetto(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    trace = proto.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    found = {"packets": len(trace.packet), "slices": 0, "instants": 0, "switches": 0, "wakings": 0}
    tracks, used, depth = set(), set(), {}
    for packet in trace.packet:
        assert unknown_fields(packet) == 0, packet
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in tracks, "described twice"
            tracks.add(packet.track_descriptor.uuid)
        if packet.HasField("track_event"):
            event = packet.track_event
            used.add(event.track_uuid)
            if event.type == event.TYPE_SLICE_BEGIN:
                found["slices"] += 1
                depth[event.track_uuid] = depth.get(event.track_uuid, 0) + 1
            elif event.type == event.TYPE_SLICE_END:
                depth[event.track_uuid] -= 1
            elif event.type == event.TYPE_INSTANT:
                found["instants"] += 1
        for event in packet.ftrace_events.event:
            found["switches"] += event.HasField("sched_switch")
            found["wakings"] += event.HasField("sched_waking")
    assert used <= tracks, "an event on a track that was never described"
    assert not any(depth.values()), "a slice that never ends"
    found["threads"] = sorted(
        {p.track_descriptor.thread.thread_name for p in trace.packet if p.track_descriptor.HasField("thread")}
    )
    return found


print(json.dumps(by_pyarrow(sys.argv[1])))
print(json.dumps(by_duckdb(sys.argv[1])))
if len(sys.argv) > 2:
    print(json.dumps(by_perfetto(sys.argv[2])))

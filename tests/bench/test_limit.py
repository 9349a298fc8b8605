from bench.measuring import wire
from bench.measuring.experiment import run_client
from bench.measuring.limit import TOPIC, BareServer
from bench.peers.brokers import process_tree, resident_mb


def test_the_bare_server_writes_reads_and_answers():
    with BareServer() as server:
        assert server.write_mb_per_s(4 << 20) > 0
        assert server.read_mb_per_s(4 << 20) > 0
        work = {"host": "127.0.0.1", "port": server.port, "topic": TOPIC, "size": 100}
        assert run_client("requests", count=2_000, **work)["requests_per_s"] > 0
        figures = run_client("round_trip", count=50, warm_up=5, partitions=1, **work)
        assert 0 < figures["p50_us"] <= figures["p99_us"]
        assert server.pid in process_tree(server.pid)
        assert 1 < resident_mb(server.pid) < 1_000


def test_many_connections_are_opened_and_counted():
    with BareServer() as server:
        work = {"host": "127.0.0.1", "port": server.port, "topic": TOPIC, "pid": server.pid}
        figures = run_client("connections", count=90, round_trips=20, warm_up=5, **work)
        assert figures["seconds"] > 0
        assert figures["resident_mb"] > 1


def test_frames_that_come_in_pieces_are_answered_once_complete():
    request = wire.produce_frame(TOPIC, 0, wire.record_batch([b"x"]))
    with BareServer() as server, wire.connect("127.0.0.1", server.port) as connection:
        connection.sendall(request[:10])
        connection.sendall(request[10:] + request)
        assert wire.produce_result(wire.read_response(connection), TOPIC)[0] == 0
        assert wire.produce_result(wire.read_response(connection), TOPIC)[0] == 0

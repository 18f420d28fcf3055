"""Client and server of the gRPC interoperability tests on Python's gRPC.

    grpc_peer.py client --target HOST:PORT --ca FILE [--cert FILE --key FILE] --case NAME
    grpc_peer.py server --ca FILE --cert FILE --key FILE [--mutual]

The client ends with status 0 and "done NAME" when the case went as it should; otherwise it says what
it got. The server says "port N" once it listens, and "cancelled METHOD" when a client gave up.

Besides the cases of the tests a client knows `refused` (TLS does not come about) and `forbidden`
(the certificate's role may not call). These two need no messages, so that they also run where there
is no protobuf.
"""

import argparse
import concurrent.futures
import sys
import threading
import time

import grpc

try:
    import testing_pb2 as pb
except ImportError:
    pb = None

SERVICE = "/grpc.testing.TestService/"
INITIAL = "x-grpc-test-echo-initial"
TRAILING = "x-grpc-test-echo-trailing-bin"
REQUEST_SIZES = [27182, 8, 1828, 45904]
RESPONSE_SIZES = [31415, 9, 2653, 58979]
LIMIT = 20  # Seconds that a call of a case may take.


def say(text):
    print(text, flush=True)


# --- Client ---------------------------------------------------------------------------------------


class Client:

    def __init__(self, options):
        self.options = options
        credentials = grpc.ssl_channel_credentials(
            root_certificates=read(options.ca),
            private_key=read(options.key) if options.key else None,
            certificate_chain=read(options.cert) if options.cert else None)
        self.channel = grpc.secure_channel(options.target, credentials)

    def method(self, kind, name, response, path=SERVICE):
        return getattr(self.channel, kind)(
            path + name,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString)

    def empty(self):
        return self.method("unary_unary", "EmptyCall", pb.Empty)

    def unary(self):
        return self.method("unary_unary", "UnaryCall", pb.SimpleResponse)

    def duplex(self):
        return self.method("stream_stream", "FullDuplexCall", pb.StreamingOutputCallResponse)

    def raw_empty(self):
        """EmptyCall without protobuf: no byte either way."""
        return self.channel.unary_unary(SERVICE + "EmptyCall", lambda _: b"", lambda data: data)


def read(name):
    with open(name, "rb") as file:
        return file.read()


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r} instead of {wanted!r}")


def failure(call):
    """The RpcError of a call that must fail."""
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call did not fail")


def zeros(size):
    return pb.Payload(body=bytes(size))


def large_request():
    return pb.SimpleRequest(response_size=314159, payload=zeros(271828))


def asking(response, payload):
    return pb.StreamingOutputCallRequest(
        response_parameters=[pb.ResponseParameters(size=response)], payload=zeros(payload))


def empty_unary(client):
    expect(client.empty()(pb.Empty(), timeout=LIMIT), pb.Empty())


def large_unary(client):
    expect(len(client.unary()(large_request(), timeout=LIMIT).payload.body), 314159)


def client_streaming(client):
    call = client.method("stream_unary", "StreamingInputCall", pb.StreamingInputCallResponse)
    requests = (pb.StreamingInputCallRequest(payload=zeros(size)) for size in REQUEST_SIZES)
    expect(call(requests, timeout=LIMIT).aggregated_payload_size, sum(REQUEST_SIZES))


def server_streaming(client):
    call = client.method("unary_stream", "StreamingOutputCall", pb.StreamingOutputCallResponse)
    request = pb.StreamingOutputCallRequest(
        response_parameters=[pb.ResponseParameters(size=size) for size in RESPONSE_SIZES])
    expect([len(m.payload.body) for m in call(request, timeout=LIMIT)], RESPONSE_SIZES)


def ping_pong(client):
    answered = threading.Semaphore(1)

    def requests():
        for response, payload in zip(RESPONSE_SIZES, REQUEST_SIZES):
            answered.acquire()
            yield asking(response, payload)

    sizes = []
    for message in client.duplex()(requests(), timeout=LIMIT):
        sizes.append(len(message.payload.body))
        answered.release()
    expect(sizes, RESPONSE_SIZES)


def empty_stream(client):
    expect(list(client.duplex()(iter(()), timeout=LIMIT)), [])


def held_open(first):
    """A request stream that sends `first` and then neither a message nor its end."""
    yield from first
    threading.Event().wait(LIMIT)


def timeout_on_sleeping_server(client):
    # Without the 1 ms of the others: here the server's own clock shall have its turn too.
    for limit in (0.001, 0.2):
        first = [pb.StreamingOutputCallRequest(payload=zeros(27182))]
        call = client.duplex()(held_open(first), timeout=limit)
        expect(failure(lambda: next(call)).code(), grpc.StatusCode.DEADLINE_EXCEEDED)
    empty_unary(client)


def cancel_after_begin(client):
    call = client.method("stream_unary", "StreamingInputCall", pb.StreamingInputCallResponse)
    future = call.future(held_open([]), timeout=LIMIT)
    future.cancel()
    expect(future.cancelled(), True)
    empty_unary(client)


def cancel_after_first_response(client):
    call = client.duplex()(held_open([asking(31415, 27182)]), timeout=LIMIT)
    expect(len(next(call).payload.body), 31415)
    call.cancel()
    expect(failure(lambda: next(call)).code(), grpc.StatusCode.CANCELLED)
    empty_unary(client)


def status_code_and_message(client):
    wanted = pb.EchoStatus(code=2, message="test status message")
    error = failure(lambda: client.unary()(pb.SimpleRequest(response_status=wanted),
                                           timeout=LIMIT))
    expect((error.code(), error.details()), (grpc.StatusCode.UNKNOWN, wanted.message))
    call = client.duplex()(iter([pb.StreamingOutputCallRequest(response_status=wanted)]),
                           timeout=LIMIT)
    error = failure(lambda: list(call))
    expect((error.code(), error.details()), (grpc.StatusCode.UNKNOWN, wanted.message))


def special_status_message(client):
    text = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"
    request = pb.SimpleRequest(response_status=pb.EchoStatus(code=2, message=text))
    error = failure(lambda: client.unary()(request, timeout=LIMIT))
    expect((error.code(), error.details()), (grpc.StatusCode.UNKNOWN, text))


def custom_metadata(client):
    sent = ((INITIAL, "test_initial_metadata_value"), (TRAILING, b"\xab\xab\xab"))

    def check(call):
        expect(dict(call.initial_metadata()).get(INITIAL), sent[0][1])
        expect(dict(call.trailing_metadata()).get(TRAILING), sent[1][1])

    _, call = client.unary().with_call(large_request(), timeout=LIMIT, metadata=sent)
    check(call)
    call = client.duplex()(iter([asking(314159, 271828)]), timeout=LIMIT, metadata=sent)
    expect(len(list(call)), 1)
    check(call)


def unimplemented_method(client):
    call = client.method("unary_unary", "UnimplementedCall", pb.Empty)
    error = failure(lambda: call(pb.Empty(), timeout=LIMIT))
    expect(error.code(), grpc.StatusCode.UNIMPLEMENTED)


def unimplemented_service(client):
    call = client.method("unary_unary", "UnimplementedCall", pb.Empty,
                         "/grpc.testing.UnimplementedService/")
    error = failure(lambda: call(pb.Empty(), timeout=LIMIT))
    expect(error.code(), grpc.StatusCode.UNIMPLEMENTED)


def refused(client):
    started = time.monotonic()
    error = failure(lambda: client.raw_empty()(None, timeout=LIMIT))
    expect(error.code(), grpc.StatusCode.UNAVAILABLE)
    say(error.details())
    say(error.debug_error_string())
    if time.monotonic() - started > LIMIT / 2:
        raise AssertionError("the call waited instead of being told")


def forbidden(client):
    error = failure(lambda: client.raw_empty()(None, timeout=LIMIT))
    expect(error.code(), grpc.StatusCode.PERMISSION_DENIED)


CASES = [
    empty_unary, large_unary, client_streaming, server_streaming, ping_pong, empty_stream,
    timeout_on_sleeping_server, cancel_after_begin, cancel_after_first_response,
    status_code_and_message, special_status_message, custom_metadata, unimplemented_method,
    unimplemented_service, refused, forbidden
]

# --- Server ---------------------------------------------------------------------------------------


def echo_metadata(context):
    asked = dict(context.invocation_metadata())
    if INITIAL in asked:
        context.send_initial_metadata(((INITIAL, asked[INITIAL]),))
    if TRAILING in asked:
        context.set_trailing_metadata(((TRAILING, asked[TRAILING]),))


def abort_if_asked(status, context):
    if status.code:
        code = next(c for c in grpc.StatusCode if c.value[0] == status.code)
        context.abort(code, status.message)


def tell_cancelled(name, context):
    """Says so when the client's reset ends the call.

    The handler itself sees no more than the end of its requests, and the library tells the
    difference to nobody, so this looks at what it keeps for itself.
    """
    context.add_callback(lambda: say(f"cancelled {name}")
                         if context._state.client == "cancelled" else None)


def answers(request):
    for one in request.response_parameters:
        if one.interval_us > 0:
            time.sleep(one.interval_us / 1e6)
        yield pb.StreamingOutputCallResponse(payload=zeros(one.size))


def serve_empty(request, context):
    del request, context
    return pb.Empty()


def serve_unary(request, context):
    echo_metadata(context)
    abort_if_asked(request.response_status, context)
    return pb.SimpleResponse(payload=zeros(request.response_size))


def serve_output(request, context):
    del context
    yield from answers(request)


def serve_input(requests, context):
    tell_cancelled("StreamingInput", context)
    total = sum(len(request.payload.body) for request in requests)
    return pb.StreamingInputCallResponse(aggregated_payload_size=total)


def serve_full_duplex(requests, context):
    echo_metadata(context)
    tell_cancelled("FullDuplex", context)
    for request in requests:
        abort_if_asked(request.response_status, context)
        yield from answers(request)


def serve_half_duplex(requests, context):
    del context
    for request in list(requests):
        yield from answers(request)


def handlers():
    table = {
        "EmptyCall": (grpc.unary_unary_rpc_method_handler, serve_empty, "Empty"),
        "UnaryCall": (grpc.unary_unary_rpc_method_handler, serve_unary, "SimpleRequest"),
        "StreamingOutputCall": (grpc.unary_stream_rpc_method_handler, serve_output,
                                "StreamingOutputCallRequest"),
        "StreamingInputCall": (grpc.stream_unary_rpc_method_handler, serve_input,
                               "StreamingInputCallRequest"),
        "FullDuplexCall": (grpc.stream_stream_rpc_method_handler, serve_full_duplex,
                           "StreamingOutputCallRequest"),
        "HalfDuplexCall": (grpc.stream_stream_rpc_method_handler, serve_half_duplex,
                           "StreamingOutputCallRequest"),
    }
    return grpc.method_handlers_generic_handler("grpc.testing.TestService", {
        name: make(serve, request_deserializer=getattr(pb, request).FromString,
                   response_serializer=lambda message: message.SerializeToString())
        for name, (make, serve, request) in table.items()
    })


def serve(options):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers((handlers(),))
    credentials = grpc.ssl_server_credentials(
        [(read(options.key), read(options.cert))],
        root_certificates=read(options.ca) if options.mutual else None,
        require_client_auth=options.mutual)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    say(f"port {port}")
    server.wait_for_termination()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sides = parser.add_subparsers(dest="side", required=True)
    client = sides.add_parser("client")
    client.add_argument("--target", required=True)
    client.add_argument("--case", required=True, choices=[case.__name__ for case in CASES])
    server = sides.add_parser("server")
    server.add_argument("--mutual", action="store_true")
    for side in (client, server):
        side.add_argument("--ca", required=True)
        side.add_argument("--cert")
        side.add_argument("--key")
    options = parser.parse_args()
    if options.side == "server":
        return serve(options)
    case = next(case for case in CASES if case.__name__ == options.case)
    try:
        case(Client(options))
    except (AssertionError, grpc.RpcError) as error:
        sys.exit(f"{options.case}: {error}")
    say(f"done {options.case}")
    # Request streams that were left open wait in threads of their own.
    sys.stdout.flush()
    return None


if __name__ == "__main__":
    main()

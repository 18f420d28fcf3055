// Package lines writes what a peer does as JSON lines on standard output, for tests to follow:
//
//	{"time":"2026-01-01T00:00:00.5Z","event":"registered","instance_id":"knc..."}
package lines

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Fields of one line besides `time` and `event`.
type Fields map[string]any

var mutex sync.Mutex

// Say writes one line, whole, in one write.
func Say(event string, fields Fields) {
	line := Fields{"time": time.Now().UTC().Format(time.RFC3339Nano), "event": event}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		text, _ = json.Marshal(Fields{"event": "unprintable", "error": err.Error()})
	}
	mutex.Lock()
	defer mutex.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// Fail writes an error with the name of its gRPC code (`Unknown` for what is none).
func Fail(event string, err error, fields Fields) {
	line := Fields{"code": status.Code(err).String(), "error": err.Error()}
	for name, value := range fields {
		line[name] = value
	}
	Say(event, line)
}

// Message turns a message into a field: protobuf's JSON with the names of the .proto files.
func Message(message proto.Message) json.RawMessage {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(message)
	if err != nil {
		text, _ = json.Marshal(err.Error())
	}
	return text
}

// The peer of our JSON, duration and time code: Go's standard library, one answer per line.
//
//	go_json json      a JSON text              -> encoding/json's text of it, or "error"
//	go_json duration  a duration               -> nanoseconds and time.Duration's text, or "error"
//	go_json time      "parse <RFC 3339>"       -> Unix seconds and nanoseconds, or "error"
//	                  "format <secs> <nanos>"  -> RFC 3339 in UTC
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func answerJSON(line string) string {
	var value any
	if err := json.Unmarshal([]byte(line), &value); err != nil {
		return "error"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "error"
	}
	return string(text)
}

func answerDuration(line string) string {
	duration, err := time.ParseDuration(line)
	if err != nil {
		return "error"
	}
	return fmt.Sprintf("%d %s", duration.Nanoseconds(), duration)
}

func answerTime(line string) string {
	kind, rest, _ := strings.Cut(line, " ")
	if kind == "format" {
		var seconds, nanoseconds int64
		if _, err := fmt.Sscanf(rest, "%d %d", &seconds, &nanoseconds); err != nil {
			return "error"
		}
		return time.Unix(seconds, nanoseconds).UTC().Format(time.RFC3339Nano)
	}
	// What encoding/json uses for the times in records.
	var at time.Time
	if err := at.UnmarshalText([]byte(rest)); err != nil {
		return "error"
	}
	return fmt.Sprintf("%d %d", at.Unix(), at.Nanosecond())
}

func main() {
	answers := map[string]func(string) string{
		"json": answerJSON, "duration": answerDuration, "time": answerTime,
	}
	if len(os.Args) != 2 || answers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go_json json|duration|time")
		os.Exit(2)
	}
	answer := answers[os.Args[1]]
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF && line == "" {
			return
		}
		fmt.Fprintln(out, answer(strings.TrimSuffix(line, "\n")))
	}
}

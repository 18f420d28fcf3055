// The peer of our templates: Go's text/template, one answer per line.
//
//	go_template render   base64(template) base64(JSON of the data) -> "ok base64(output)",
//	                     "parse base64(error)" or "exec base64(error)"
//	go_template unicode  (nothing) -> the version, then "name <first> <last>" and
//	                     "print <first> <last>" per range of code points, in hexadecimal
//	go_template bench    base64(template) base64(JSON) base64(output) -> nanoseconds per rendering
//
// The data is a Root. Maps are asked for missing keys with missingkey=zero, which gives the empty
// string for maps of strings; in maps of other values the tests ask for keys that are there.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"
	"unicode"
	"unicode/utf8"
)

type Instance struct{ ID, Kind, Arch, Type string }

type Cluster struct{ ID, CACert string }

type Root struct {
	Instance Instance
	Cluster  Cluster
	Vars     map[string]string
	Nonce    string
	Count    int
	Ratio    float64
	Flag     bool
	List     []any
	Map      map[string]any
}

// What JSON cannot carry: the values of Vars and the nonce are base64.
type wire struct {
	Root
	Vars  map[string][]byte
	Nonce []byte
}

// Slices of exactly their length, so that `slice` cannot reach behind them.
func clipped(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = clipped(value[i])
		}
		return slices.Clip(value)
	case map[string]any:
		for key := range value {
			value[key] = clipped(value[key])
		}
	}
	return value
}

func readData(text []byte) (*Root, error) {
	var in wire
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	root := in.Root
	root.Vars = map[string]string{}
	for name, value := range in.Vars {
		root.Vars[name] = string(value)
	}
	root.Nonce = string(in.Nonce)
	root.List, _ = clipped(root.List).([]any)
	clipped(root.Map)
	return &root, nil
}

func scalar(value any, what string) error {
	switch kind := reflect.ValueOf(value).Kind(); kind {
	case reflect.Slice, reflect.Map, reflect.Struct:
		return fmt.Errorf("a value of type %T is no %s; give a string, a number or a boolean", value, what)
	}
	return nil
}

func shellquote(value any) (string, error) {
	if value == nil {
		return "", errors.New("a value of type <nil> is no shell word; give a string, a number or a boolean")
	}
	if err := scalar(value, "shell word"); err != nil {
		return "", err
	}
	text := fmt.Sprint(value)
	if strings.ContainsRune(text, 0) {
		return "", errors.New("a shell word cannot hold a NUL byte")
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", nil
}

func yamlquote(value any) (string, error) {
	if value == nil {
		return "null", nil
	}
	if err := scalar(value, "YAML scalar"); err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Sprint(value), nil
	}
	if !utf8.ValidString(text) {
		return "", errors.New("a YAML scalar must be UTF-8")
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out.WriteRune('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < 0x20, r >= 0x7F && r < 0xA0, r == 0x2028, r == 0x2029, r == 0xFEFF, r == 0xFFFE, r == 0xFFFF:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String(), nil
}

func parse(source string) (*template.Template, error) {
	funcs := template.FuncMap{"shellquote": shellquote, "yamlquote": yamlquote}
	return template.New("t").Option("missingkey=zero").Funcs(funcs).Parse(source)
}

func render(source string, data *Root) string {
	answer := func(kind, text string) string {
		return kind + " " + base64.StdEncoding.EncodeToString([]byte(text))
	}
	parsed, err := parse(source)
	if err != nil {
		return answer("parse", err.Error())
	}
	var out strings.Builder
	if err := parsed.Execute(&out, *data); err != nil {
		return answer("exec", err.Error())
	}
	return answer("ok", out.String())
}

func bench(source string, data *Root, want string) string {
	parsed, err := parse(source)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	if err := parsed.Execute(&out, *data); err != nil || out.String() != want {
		return "the output differs"
	}
	result := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			var out strings.Builder
			_ = parsed.Execute(&out, data)
		}
	})
	return fmt.Sprint(result.NsPerOp())
}

func fields(line string) ([]string, error) {
	var out []string
	for _, field := range strings.Split(line, " ") {
		text, err := base64.StdEncoding.DecodeString(field)
		if err != nil {
			return nil, err
		}
		out = append(out, string(text))
	}
	return out, nil
}

func printRanges(out *bufio.Writer, name string, has func(rune) bool) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !has(r) {
			continue
		}
		first := r
		for r < unicode.MaxRune && has(r+1) {
			r++
		}
		fmt.Fprintf(out, "%s %x %x\n", name, first, r)
	}
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go_template render|unicode|bench")
		os.Exit(2)
	}
	if os.Args[1] == "unicode" {
		fmt.Fprintln(out, unicode.Version)
		printRanges(out, "name", func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) })
		printRanges(out, "print", unicode.IsPrint)
		printRanges(out, "space", unicode.IsSpace)
		return
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		text, err := fields(strings.TrimSuffix(line, "\n"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		data, err := readData([]byte(text[1]))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if os.Args[1] == "bench" {
			fmt.Fprintln(out, bench(text[0], data, text[2]))
		} else {
			fmt.Fprintln(out, render(text[0], data))
		}
	}
}

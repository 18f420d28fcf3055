#include "test/core/template/cases.h"

#include <array>

namespace nstance::test {

std::span<const TemplateCase> OutputCases() {
  static constexpr auto kCases = std::to_array<TemplateCase>({
      // Text, comments, trim markers.
      {"", ""},
      {"plain } text { }} {", "plain } text { }} {"},
      {"a{{/* b */}}c", "ac"},
      {"a \n {{- /* b */ -}} \n c", "ac"},
      {"a  {{- 1}} b", "a1 b"},
      {"a {{1 -}}  \n b", "a 1b"},
      {"a {{- 1 -}} b", "a1b"},
      {"{{-3}}", "-3"},
      {"{{- -3 -}}", "-3"},
      {"{{/* {{ }} */}}x", "x"},
      {"{{ 1\n}}", "1"},
      // Fields, keys, variables, dot.
      {"{{.Instance.ID}} {{.Cluster.ID}}", "knc1 example"},
      {"{{.Vars.ROLE}}[{{.Vars.NONE}}][{{.Vars.EMPTY}}]", "worker[][]"},
      {"{{.Map.a}} {{.Map.b}} {{.Map.c.a}}", "A 1e+06 deep"},
      {"{{.Map.n}}", "<no value>"},
      {"{{(index .List 5).a}} {{(.Map.c).a}}", "A deep"},
      {"{{with .Map}}{{.a}}{{$.Count}}{{end}}", "A3"},
      {"{{$x := .Instance}}{{$x.Kind}}", "worker"},
      {"{{$x := 1}}{{$x = 2}}{{$x}}", "2"},
      {"{{$x := 1}}{{if true}}{{$x = 2}}{{$x := 3}}{{$x}}{{end}}{{$x}}", "32"},
      {"{{$x := 1}}{{$x := 2}}{{$x}}", "2"},
      {"{{$x := 1}}{{with $x := 5}}{{$x}}{{end}}{{$x}}", "51"},
      {"{{$ := 5}}{{$}}", "5"},
      {"{{if $x := .Count}}{{$x}}{{else}}{{$x}}{{end}}", "3"},
      {"{{print ($x := 5) $x}}{{$x}}", "5 55"},
      {"{{$x := 1}}{{$y := or true ($x := 2)}}{{$x}}", "1"},
      {"{{$x := 1}}{{$y := or false ($x := 2)}}{{$x}}", "2"},
      {"{{$x := 1}}{{if 0}}{{$x := 2}}{{else}}{{$x}}{{end}}{{if $x := 0}}{{else}}{{$x}}{{end}}",
       "10"},
      {"{{$n := .Map.n}}{{$n.x.y}}", "<no value>"},
      // Conditions.
      {"{{if .Flag}}t{{else}}f{{end}}", "t"},
      {"{{if 0}}0{{else if \"\"}}1{{else if .Vars.NONE}}2{{else if .Flag}}3{{else}}4{{end}}", "3"},
      {"{{if 0.0}}a{{end}}{{if not nil}}b{{end}}", "b"},
      {"{{if .}}root{{end}}{{if .Map.c.b}}no{{end}}{{if .Map.c.c}}no{{end}}", "root"},
      {"{{with .Vars.NONE}}a{{else with .Vars.ROLE}}{{.}}{{else}}c{{end}}", "worker"},
      {"{{with 0}}a{{else}}{{.Count}}{{end}}", "3"},
      // Loops.
      {"{{range .List}}<{{.}}>{{end}}",
       "<x><1><2.5><true><<no value>><map[a:A b:<nil> c:[1 two]]>"},
      {"{{range $e := .List}}{{$e}},{{end}}",
       "x,1,2.5,true,<no value>,map[a:A b:<nil> c:[1 two]],"},
      {"{{range $i, $e := .Map.c.b}}x{{else}}none{{end}}", "none"},
      {"{{range $k, $v := .Vars}}{{$k}}={{$v}};{{end}}",
       "EMPTY=;HTML=<a href=\"x\">&';QUOTE=it's;ROLE=worker;"},
      {"{{range 3}}{{.}}{{end}} {{range $i := 2}}{{$i}}{{end}} {{range 0}}x{{else}}no{{end}}",
       "012 01 no"},
      {"{{range -1}}x{{else}}no{{end}}{{range or nil nil}}x{{else}}nil{{end}}", "nonil"},
      {"{{range .List}}{{if eq (printf \"%v\" .) \"true\"}}{{break}}{{end}}{{.}},{{end}}",
       "x,1,2.5,"},
      {"{{range 5}}{{if eq . 1 3}}{{continue}}{{end}}{{.}}{{end}}", "024"},
      {"{{range 3}}{{with .}}{{if eq . 2}}{{break}}{{end}}{{.}}{{continue}}{{end}}z{{end}}e",
       "z1e"},
      {"{{range 2}}{{range 3}}{{if eq . 1}}{{break}}{{end}}{{.}}{{end}}|{{end}}", "0|0|"},
      {"{{range 2}}{{range 0}}{{else}}{{break}}z{{end}}x{{end}}y", "xxy"},
      {"{{range 2}}{{range 0}}{{else}}{{with 1}}{{continue}}{{end}}z{{end}}x{{end}}y", "y"},
      {"{{$i := 0}}{{range $i = .List}}{{end}}{{$i}}", "map[a:A b:<nil> c:[1 two]]"},
      {"{{$i := 0}}{{$e := 0}}{{range $i, $e = .Map.c}}{{$i}}{{end}}{{$i}}{{$e}}", "abccmap[]"},
      {"{{range $i, $e := .List}}{{$i}}{{end}}", "012345"},
      {"{{range index \"\\x02\" 0}}{{printf \"%T\" .}}{{end}}", "uint8uint8"},
      {"{{range $x, $y := .Vars}}{{$z := $x}}{{end}}{{range .Vars}}.{{end}}", "...."},
      // Templates.
      {"{{define \"x\"}}<{{.}}>{{end}}{{template \"x\" 1}}{{template \"x\"}}", "<1><<no value>>"},
      {"{{template \"x\" .Count}}{{define `x`}}{{range .}}{{.}}{{$}}{{end}}{{end}}", "031323"},
      {"{{block \"b\" .Map}}{{.a}}{{end}}{{template \"b\" .Map}}", "AA"},
      {"{{define \"d\"}}{{if .}}{{.}}{{template \"d\" slice . 1}}{{end}}{{end}}{{template \"d\" "
       "\"abc\"}}",
       "abcbcc"},
      {"{{define \"e\"}} {{end}}{{define \"e\"}}full{{end}}{{define \"e\"}}{{end}}{{template "
       "\"e\"}}",
       "full"},
      {"{{define \"t\"}}self{{end}}  ", "self"},
      {"{{range 2}}{{block \"q\" .}}{{with $}}{{.}}{{end}}b{{end}}{{end}}", "b1b"},
      // Constants.
      {"{{true}} {{false}} {{1}} {{-5}} {{+7}} {{'a'}} {{'\\n'}} {{'\\u00e9'}} {{'\\x80'}}",
       "true false 1 -5 7 97 10 233 128"},
      {"{{0x1f}} {{0o17}} {{017}} {{0b101}} {{1_000}} {{0X_f}}", "31 15 15 5 1000 15"},
      {"{{1.5}} {{1e3}} {{1E-3}} {{.5}} {{5.}} {{0x1p-2}} {{0x1.8P1}} {{1_0.5}}",
       "1.5 1000 0.001 0.5 5 0.25 3 10.5"},
      {"{{1e-400}} {{-0.0}} {{100000.0}} {{1000000.0}} {{1e20}} {{1e21}} {{123456789.0}} {{1e-5}}",
       "0 -0 100000 1e+06 1e+20 1e+21 1.23456789e+08 1e-05"},
      {"{{printf \"%T\" -0x1e}} {{printf \"%T\" 0x1e}} {{printf \"%T\" 'e'}}", "float64 int int"},
      {"{{9223372036854775807}} {{-9223372036854775808}}",
       "9223372036854775807 -9223372036854775808"},
      {R"({{"a\tb\n\"\\\x41\101\u00e9\U0001F600"}})", "a\tb\n\"\\AA\xC3\xA9\xF0\x9F\x98\x80"},
      {"{{`raw\\n\"x\"`}} {{\"}}\"}} {{`a\nb`}} {{`a\r\nb`}}", "raw\\n\"x\" }} a\nb a\nb"},
      {"{{\"\xFF\"}}{{`\xFF`}}", "\xEF\xBF\xBD\xFF"},
      // Pipelines.
      {"{{.Count | printf \"%03d\"}} {{1 | print 2 3}} {{print 1 2 \"a\" 3 4 nil}}",
       "003 2 3 1 1 2a3 4 <nil>"},
      {"{{println 1 \"a\" nil}}{{println}}", "1 a <nil>\n\n"},
      {"{{(1)}} {{((2))}} {{print (print 1) (print 2)}} {{.List | len | not | or 5}}", "1 2 12 5"},
      {"{{.Map.n | print}} {{print}}", "<nil> "},
      // Logic and comparison.
      {"{{and 1 0 (index .List 99)}} {{or 0 \"x\" (index .List 99)}} {{and 1 2}} {{or 0 nil}}",
       "0 x 2 <no value>"},
      {"{{not 1}} {{not \"\"}} {{true | and 1}} {{0 | or 0}}", "false true true 0"},
      {"{{eq 1 1}} {{eq 1 2 1}} {{eq \"a\" \"b\"}} {{ne 1 2}} {{lt 1 2}} {{le 2 2}} {{gt 1 2}} "
       "{{ge "
       "2.5 2.5}}",
       "true true false true true true false true"},
      {"{{eq nil nil}} {{eq nil 1}} {{eq 1 nil}} {{eq .Map.n nil}} {{eq .List nil}} {{ne nil 1}}",
       "true false false true false true"},
      {"{{eq .Instance .Instance}} {{eq .Instance .Cluster}} {{eq (index \"a\" 0) 97}} {{lt 1 "
       "(index "
       "\"a\" 0)}}",
       "true false true true"},
      {"{{lt \"a\" \"b\"}} {{eq true true}} {{eq .Ratio 0.25}} {{eq .Vars.ROLE .Instance.Kind}}",
       "true true true true"},
      // index, slice, len.
      {"{{index .List 0}} {{index .Map \"c\" \"a\"}} {{index .Vars \"ROLE\"}} {{index .List 5 "
       "\"c\" "
       "1}} {{index 5}}",
       "x deep worker two 5"},
      {"{{index \"abc\" 1}} {{slice \"hello\" 1 3}} {{slice \"hello\" 2}} {{slice \"x\"}}",
       "98 el llo x"},
      {"{{slice .List 1 3}} {{slice .List 4 6 6}} {{slice (slice .List 0 1) 0 2}} {{len (slice "
       ".List "
       "2 2)}}",
       "[1 2.5] [<nil> map[a:A b:<nil> c:[1 two]]] [x 1] 0"},
      {"{{len .List}} {{len .Map}} {{len .Vars}} {{len \"\xC3\xA9\"}}", "6 6 4 2"},
      // Escaping.
      {"{{html .Vars.HTML}} {{.Vars.HTML | html}} {{html 1 2 nil}} {{html \"a\\x00b\"}}",
       "&lt;a href=&#34;x&#34;&gt;&amp;&#39; &lt;a href=&#34;x&#34;&gt;&amp;&#39; 1 2&lt;no "
       "value&gt; a\xEF\xBF\xBD"
       "b"},
      {"{{js .Vars.HTML}} {{js \"\\n\\\\=\\x7f\\u00e9\\u200b\\xff\"}}",
       "\\u003Ca href\\u003D\\\"x\\\"\\u003E\\u0026\\' \\u000A\\\\\\u003D\x7F\xC3\xA9\\u200B\xFF"},
      {"{{urlquery \"a b/c?d=\xC3\xA9~-_.*\"}} {{urlquery 1 \"x\"}}",
       "a+b%2Fc%3Fd%3D%C3%A9~-_.%2A 1x"},
      {"{{shellquote .Vars.QUOTE}} {{shellquote 5}} {{shellquote \"\"}} {{\"$(x)\" | shellquote}} "
       "{{shellquote true}}",
       "'it'\\''s' '5' '' '$(x)' 'true'"},
      {"{{yamlquote .Map.e}} {{yamlquote 5}} {{yamlquote nil}} {{yamlquote \"a: "
       "\\\"b\\\"\\n\\x01\"}} "
       "{{yamlquote 0.5}} {{yamlquote \"\\u2028\\u0085\"}}",
       "\"\xC3\xA9\\t\xF0\x9F\x98\x80\" 5 null \"a: \\\"b\\\"\\n\\u0001\" 0.5 \"\\u2028\\u0085\""},
      // Printing of compounds.
      {"{{.Map.c}} {{.Instance}} {{.List}}",
       "map[a:deep b:[] c:map[]] {knc1 worker arm64 c7g.large} [x 1 2.5 true <nil> map[a:A b:<nil> "
       "c:[1 two]]]"},
  });
  return kCases;
}

std::span<const TemplateCase> PrintfCases() {
  static constexpr auto kCases = std::to_array<TemplateCase>({
      {"{{printf \"%d|%5d|%-5d|%05d|%+d|% d|%x|%X|%#x|%o|%#o|%O|%b|%#b\" 42 42 42 42 42 42 42 42 "
       "42 "
       "42 42 42 42 42}}",
       "42|   42|42   |00042|+42| 42|2a|2A|0x2a|52|052|0o52|101010|0b101010"},
      {"{{printf \"%d %x %05d %.3d %8.3d %-8.3d| %+.0d\" -42 -42 -42 -42 -42 -42 0}}",
       "-42 -2a -0042 -042     -042 -042    | "},
      {"{{printf \"%c %q %U %#U %+q %c\" 233 233 233 128512 233 -1}}",
       "\xC3\xA9 '\xC3\xA9' U+00E9 U+1F600 '\xF0\x9F\x98\x80' '\\u00e9' \xEF\xBF\xBD"},
      {"{{printf \"%s|%5s|%-5s|%.2s|%q|%#q|%+q|%x|% x|%#x|%# X\" \"abc\" \"abc\" \"abc\" \"abc\" "
       "\"a\\nb\" \"ab\" \"\xC3\xA9\" \"abc\" \"abc\" \"abc\" \"abc\"}}",
       "abc|  abc|abc  |ab|\"a\\nb\"|`ab`|\"\\u00e9\"|616263|61 62 63|0x616263|0X61 0X62 0X63"},
      {"{{printf \"%e %E %f %F %g %G %.2f %8.3f %-8.2f| %+g %08.3f\" 1.5 1.5 1.5 1.5 1e21 1e-7 "
       "2.345 "
       "3.14159 2.5 1.0 -3.14159}}",
       "1.500000e+00 1.500000E+00 1.500000 1.500000 1e+21 1E-07 2.35    3.142 2.50    | +1 "
       "-003.142"},
      {"{{printf \"%b %x %X %.3x %#g %#v %.3g %.0f\" 1.5 1.5 -0.1 1.0 1.0 1e6 123456.0 2.5}}",
       "6755399441055744p-52 0x1.8p+00 -0X1.999999999999AP-04 0x1.000p+00 1.00000 1e+06 1.23e+05 "
       "2"},
      {"{{printf \"%v %+v %#v %T\" .Instance .Instance .Instance .Instance}}",
       "{knc1 worker arm64 c7g.large} {ID:knc1 Kind:worker Arch:arm64 Type:c7g.large} "
       "main.Instance{ID:\"knc1\", Kind:\"worker\", Arch:\"arm64\", Type:\"c7g.large\"} "
       "main.Instance"},
      {"{{printf \"%v %#v %T %d\" .List .List .List .List}}",
       "[x 1 2.5 true <nil> map[a:A b:<nil> c:[1 two]]] []interface {}{\"x\", 1, 2.5, true, "
       "interface {}(nil), map[string]interface {}{\"a\":\"A\", \"b\":interface {}(nil), "
       "\"c\":[]interface {}{1, \"two\"}}} []interface {} [%!d(string=x) %!d(float64=1) "
       "%!d(float64=2.5) %!d(bool=true) <nil> map[%!d(string=a):%!d(string=A) %!d(string=b):<nil> "
       "%!d(string=c):[%!d(float64=1) %!d(string=two)]]]"},
      {"{{printf \"%v %#v %T %s\" .Vars .Vars .Vars .Map.c}}",
       "map[EMPTY: HTML:<a href=\"x\">&' QUOTE:it's ROLE:worker] map[string]string{\"EMPTY\":\"\", "
       "\"HTML\":\"<a href=\\\"x\\\">&'\", \"QUOTE\":\"it's\", \"ROLE\":\"worker\"} "
       "map[string]string map[a:deep b:[] c:map[]]"},
      {"{{printf \"%t %v %5t %d\" true false true true}}", "true false  true %!d(bool=true)"},
      {"{{printf \"%d %s %z %t %w\" \"x\" 5 5 \"y\" .Map.c.b}}",
       "%!d(string=x) %!s(int=5) %!z(int=5) %!t(string=y) %!w([]interface {}=[])"},
      {"{{printf \"%v %d %T %s %5v|\" nil nil nil .Map.n nil}}",
       "<nil> %!d(<nil>) <nil> %!s(<nil>) <nil>|"},
      {"{{printf \"%d\"}} {{printf \"x\" 1 \"a\" nil}} {{printf \"%\"}} {{printf \"%5\"}} {{printf "
       "\"%!\" 1}} {{printf \"%%|%5%\"}}",
       "%!d(MISSING) x%!(EXTRA int=1, string=a, <nil>) %!(NOVERB) %!(NOVERB) %!!(int=1) %|%"},
      {"{{printf \"%[2]d %[1]d\" 1 2}} {{printf \"%[3]d\" 1}} {{printf \"%[x]d\" 1}} {{printf "
       "\"%[\" "
       "1}} {{printf \"%[2]*[1]d|\" 7 4}} {{printf \"%[1]2d\" 1}}",
       "2 1 %!d(BADINDEX) %!d(BADINDEX) %!(NOVERB)    7| %!d(BADINDEX)"},
      {"{{printf \"%*d|%-*d|%*d|%.*f|%*d|%.*d\" 5 1 5 1 -5 1 2 3.14159 \"x\" 1 -1 2}}",
       "    1|1    |1    |3.14|%!(BADWIDTH)1|%!(BADPREC)2"},
      {"{{printf \"%100000000d\" 1}} {{printf \"%*d\" 1000001 1}} {{printf \"%.100000000d|\" 1}}",
       "%!(NOVERB)%!(EXTRA int=1) %!(BADWIDTH)1 %!(NOVERB)%!(EXTRA int=1)"},
      {"{{printf \"%05s|%-05d|%+05d|%x|%X\" \"a\" 5 5 -255 \"\xC3\xA9\"}}",
       "0000a|5    |+0005|-ff|C3A9"},
      {"{{printf \"%6.2v|%.1v|%6v|%q|%v\" \"abc\" \"abc\" \"\xC3\xA9\" .Map.c .Flag}}",
       "    ab|a|     \xC3\xA9|map[\"a\":\"deep\" \"b\":[] \"c\":map[]]|true"},
      {"{{printf \"%v %v\" (index \"a\" 0) 'a'}} {{printf \"%#v %c\" (index \"a\" 0) (index \"a\" "
       "0)}}",
       "97 97 0x61 a"},
      {"{{printf \"%q %q\" \"\\xff\\u200b\\U000e0001\" 0}} {{printf \"%.3q %U %x\" "
       "\"h\xC3\xA9llo\" -1 "
       "\"\"}}",
       "\"\\xff\\u200b\\U000e0001\" '\\x00' \"h\xC3\xA9l\" U+FFFFFFFFFFFFFFFF "},
      {"{{printf \"%.20f %.25e %.30g\" 0.1 0.1 0.1}}",
       "0.10000000000000000555 1.0000000000000000555111512e-01 0.100000000000000005551115123126"},
      {"{{printf \"%v %v %v\" 1e308 5e-324 2.2250738585072014e-308}}",
       "1e+308 5e-324 2.2250738585072014e-308"},
  });
  return kCases;
}

std::span<const TemplateCase> ExecErrorCases() {
  static constexpr auto kCases = std::to_array<TemplateCase>({
      {"{{.Nope}}",
       "template: t:1:2: executing \"t\" at <.Nope>: can't evaluate field Nope in type main.Root"},
      {"a\nb {{.Instance.Nope.X}}",
       "template: t:2:13: executing \"t\" at <.Instance.Nope.X>: can't evaluate field Nope in type "
       "main.Instance"},
      {"{{.Vars.A.B}}",
       "template: t:1:7: executing \"t\" at <.Vars.A.B>: can't evaluate field B in type string"},
      {"{{.Map.a.x}}",
       "template: t:1:6: executing \"t\" at <.Map.a.x>: can't evaluate field x in type interface "
       "{}"},
      {"{{.Map.n.x}}",
       "template: t:1:6: executing \"t\" at <.Map.n.x>: nil pointer evaluating interface {}.x"},
      {"{{range .List}}{{.a}}{{end}}",
       "template: t:1:17: executing \"t\" at <.a>: can't evaluate field a in type interface {}"},
      {"{{.Count 1}}",
       "template: t:1:2: executing \"t\" at <.Count>: Count has arguments but cannot be invoked as "
       "function"},
      {"{{1 | .Map.a}}",
       "template: t:1:10: executing \"t\" at <.Map.a>: a is not a method but has arguments"},
      {"{{$x := 1}}{{$x 2}}",
       "template: t:1:13: executing \"t\" at <$x>: can't give argument to non-function $x"},
      {"{{(1) 2}}",
       "template: t:1:2: executing \"t\" at <(1) 2>: can't give argument to non-function 1"},
      {"{{nil}}", "template: t:1:2: executing \"t\" at <nil>: nil is not a command"},
      {"{{18446744073709551615}}",
       "template: t:1:2: executing \"t\" at <18446744073709551615>: 18446744073709551615 overflows "
       "int"},
      {"{{$x = 1}}", "template: t:1:7: executing \"t\" at <1>: undefined variable: $x"},
      {"{{$x := $x}}", "template: t:1:8: executing \"t\" at <$x>: undefined variable: $x"},
      {"{{if 0}}{{$x := 2}}{{else}}{{$x}}{{end}}",
       "template: t:1:29: executing \"t\" at <$x>: undefined variable: $x"},
      {"{{$y := or true ($x := 2)}}{{$x}}",
       "template: t:1:29: executing \"t\" at <$x>: undefined variable: $x"},
      {"{{template \"no\" .}}",
       "template: t:1:11: executing \"t\" at <{{template \"no\" .}}>: template \"no\" not defined"},
      {"{{template \"no\"}}",
       "template: t:1:11: executing \"t\" at <{{template \"no\"}}>: template \"no\" not defined"},
      {"{{define \"x\"}}{{.a}}{{end}}{{template \"x\" 1}}",
       "template: t:1:16: executing \"x\" at <.a>: can't evaluate field a in type int"},
      {"{{range $i, $e := 3}}{{end}}",
       "template: t:1:18: executing \"t\" at <3>: can't use 3 to iterate over more than one "
       "variable"},
      {"{{range .Nonce}}{{end}}",
       "template: t:1:8: executing \"t\" at <.Nonce>: range can't iterate over a value of type "
       "string"},
      {"{{len}}",
       "template: t:1:2: executing \"t\" at <len>: wrong number of args for len: want 1 got 0"},
      {"{{eq}}",
       "template: t:1:2: executing \"t\" at <eq>: wrong number of args for eq: want at least 1 got "
       "0"},
      {"{{1 | lt 2 3}}",
       "template: t:1:6: executing \"t\" at <lt>: wrong number of args for lt: want 2 got 3"},
      {"{{print len}}",
       "template: t:1:8: executing \"t\" at <len>: wrong number of args for len: want 1 got 0"},
      {"{{len 5}}",
       "template: t:1:2: executing \"t\" at <len 5>: error calling len: len of type int"},
      {"{{len nil}}",
       "template: t:1:2: executing \"t\" at <len nil>: error calling len: len of nil pointer"},
      {"{{eq 1}}",
       "template: t:1:2: executing \"t\" at <eq 1>: error calling eq: missing argument for "
       "comparison"},
      {"{{eq 1 \"a\"}}",
       "template: t:1:2: executing \"t\" at <eq 1 \"a\">: error calling eq: incompatible types for "
       "comparison: int and string"},
      {"{{eq 1 1.0}}",
       "template: t:1:2: executing \"t\" at <eq 1 1.0>: error calling eq: incompatible types for "
       "comparison: int and float64"},
      {"{{eq .List .List}}",
       "template: t:1:2: executing \"t\" at <eq .List .List>: error calling eq: non-comparable "
       "type "
       "[]interface {}"},
      {"{{eq .List .Map}}",
       "template: t:1:2: executing \"t\" at <eq .List .Map>: error calling eq: non-comparable "
       "types "
       "[]interface {} and map[string]interface {}"},
      {"{{lt true false}}",
       "template: t:1:2: executing \"t\" at <lt true false>: error calling lt: invalid type for "
       "comparison"},
      {"{{gt nil 1}}",
       "template: t:1:2: executing \"t\" at <gt nil 1>: error calling gt: invalid type for "
       "comparison"},
      {"{{index .List 6}}",
       "template: t:1:2: executing \"t\" at <index .List 6>: error calling index: reflect: slice "
       "index "
       "out of range"},
      {"{{index .List 7}}",
       "template: t:1:2: executing \"t\" at <index .List 7>: error calling index: index out of "
       "range: "
       "7"},
      {"{{index .List -1}}",
       "template: t:1:2: executing \"t\" at <index .List -1>: error calling index: index out of "
       "range: "
       "-1"},
      {"{{index .List nil}}",
       "template: t:1:2: executing \"t\" at <index .List nil>: error calling index: cannot index "
       "slice/array with nil"},
      {"{{index .List \"a\"}}",
       "template: t:1:2: executing \"t\" at <index .List \"a\">: error calling index: cannot index "
       "slice/array with type string"},
      {"{{index .Map 1}}",
       "template: t:1:2: executing \"t\" at <index .Map 1>: error calling index: value has type "
       "int; "
       "should be string"},
      {"{{index .Map nil}}",
       "template: t:1:2: executing \"t\" at <index .Map nil>: error calling index: value is nil; "
       "should "
       "be of type string"},
      {"{{index nil 1}}",
       "template: t:1:2: executing \"t\" at <index nil 1>: error calling index: index of untyped "
       "nil"},
      {"{{index .Map \"n\" 1}}",
       "template: t:1:2: executing \"t\" at <index .Map \"n\" 1>: error calling index: index of "
       "nil "
       "pointer"},
      {"{{index 5 1}}",
       "template: t:1:2: executing \"t\" at <index 5 1>: error calling index: can't index item of "
       "type "
       "int"},
      {"{{slice .List 3 2}}",
       "template: t:1:2: executing \"t\" at <slice .List 3 2>: error calling slice: invalid slice "
       "index: "
       "3 > 2"},
      {"{{slice \"abc\" 1 2 3}}",
       "template: t:1:2: executing \"t\" at <slice \"abc\" 1 2 3>: error calling slice: cannot "
       "3-index "
       "slice a string"},
      {"{{slice .Map 1}}",
       "template: t:1:2: executing \"t\" at <slice .Map 1>: error calling slice: can't slice item "
       "of "
       "type map[string]interface {}"},
      {"{{slice .List (index .List 0)}}",
       "template: t:1:2: executing \"t\" at <slice .List (index .List 0)>: error calling slice: "
       "cannot "
       "index slice/array with type string"},
      {"{{slice .List .Map.b}}",
       "template: t:1:2: executing \"t\" at <slice .List .Map.b>: error calling slice: cannot "
       "index "
       "slice/array with type interface {}"},
      {"{{slice .List 1 2 3 4}}",
       "template: t:1:2: executing \"t\" at <slice .List 1 2 3 4>: error calling slice: too many "
       "slice "
       "indexes: 4"},
      {"{{printf 5}}", "template: t:1:9: executing \"t\" at <5>: expected string; found 5"},
      {"{{printf nil}}", "template: t:1:9: executing \"t\" at <nil>: cannot assign nil to string"},
      {"{{printf .Count}}",
       "template: t:1:9: executing \"t\" at <.Count>: wrong type for value; expected string; got "
       "int"},
      {"{{printf .Map.b}}",
       "template: t:1:13: executing \"t\" at <.Map.b>: wrong type for value; expected string; got "
       "float64"},
      {"{{printf .Map.n}}",
       "template: t:1:13: executing \"t\" at <.Map.n>: wrong type for value; expected string; got "
       "interface {}"},
      {"{{.Map.n | printf}}",
       "template: t:1:11: executing \"t\" at <printf>: invalid value; expected string"},
      {"{{call .Nonce}}",
       "template: t:1:2: executing \"t\" at <call .Nonce>: error calling call: non-function .Nonce "
       "of "
       "type string"},
      {"{{call nil}}",
       "template: t:1:2: executing \"t\" at <call nil>: error calling call: call of nil"},
      {"{{.Nonce | call}}",
       "template: t:1:11: executing \"t\" at <call>: error calling call: non-function <string "
       "Value> of "
       "type string"},
      {"{{shellquote .List}}",
       "template: t:1:2: executing \"t\" at <shellquote .List>: error calling shellquote: a value "
       "of "
       "type []interface {} is no shell word; give a string, a number or a boolean"},
      {"{{shellquote \"a\\x00\"}}",
       "template: t:1:2: executing \"t\" at <shellquote \"a\\x00\">: error calling shellquote: a "
       "shell "
       "word cannot hold a NUL byte"},
      {"{{yamlquote \"\\xff\"}}",
       "template: t:1:2: executing \"t\" at <yamlquote \"\\xff\">: error calling yamlquote: a YAML "
       "scalar must be UTF-8"},
      {"{{yamlquote .Map}}",
       "template: t:1:2: executing \"t\" at <yamlquote .Map>: error calling yamlquote: a value of "
       "type "
       "map[string]interface {} is no YAML scalar; give a string, a number or a boolean"},
      {"{{print.x}}",
       "template: t:1:2: executing \"t\" at <print>: can't evaluate field x in type string"},
  });
  return kCases;
}

std::span<const TemplateCase> ParseErrorCases() {
  static constexpr auto kCases = std::to_array<TemplateCase>({
      {"{{", "template: t:1: unclosed action"},
      {"a\n{{if .x\n", "template: t:3: unclosed action started at t:2"},
      {"{{\n\"a", "template: t:2: unterminated quoted string in action started at t:1"},
      {"{{if .x}}", "template: t:1: unexpected EOF"},
      {"{{end}}", "template: t:1: unexpected {{end}}"},
      {"{{else}}", "template: t:1: unexpected {{else}}"},
      {"{{if 1}}{{else}}{{else}}{{end}}", "template: t:1: expected end; found {{else}}"},
      {"{{if 1}}{{else with 1}}{{end}}{{end}}", "template: t:1: unexpected <with> in input"},
      {"{{range 1}}{{else if 1}}{{end}}{{end}}", "template: t:1: unexpected <if> in input"},
      {"{{nope 1}}", "template: t:1: function \"nope\" not defined"},
      {"{{$x}}", "template: t:1: undefined variable \"$x\""},
      {"{{if 1}}{{$x := 1}}{{end}}{{$x}}", "template: t:1: undefined variable \"$x\""},
      {"{{}}", "template: t:1: missing value for command"},
      {"{{if}}{{end}}", "template: t:1: missing value for if"},
      {"{{()}}", "template: t:1: missing value for parenthesized pipeline"},
      {"{{(1}}", "template: t:1: unclosed left paren"},
      {"{{1)}}", "template: t:1: unexpected right paren"},
      {"{{break}}", "template: t:1: {{break}} outside {{range}}"},
      {"{{range 1}}{{else}}{{continue}}{{end}}", "template: t:1: {{continue}} outside {{range}}"},
      {"{{range 1}}{{break 1}}{{end}}", "template: t:1: unexpected \"1\" in {{break}}"},
      {"{{range 1}}{{block \"x\" .}}{{break}}{{end}}{{end}}",
       "template: t:1: {{break}} outside {{range}}"},
      {"{{1 | 2}}", "template: t:1: non executable command in pipeline stage 2"},
      {"{{print | | print}}", "template: t:1: unexpected \"|\" in command"},
      {"{{\"a\".b}}", "template: t:1: unexpected . after term \"\\\"a\\\"\""},
      {"{{nil.b}}", "template: t:1: unexpected . after term \"nil\""},
      {"{{. .x}}{{..x}}", "template: t:1: unexpected . after term \".\""},
      {"{{define \"x\"}}a{{end}}{{define \"x\"}}b{{end}}",
       "template: t:1: template: multiple definition of template \"x\""},
      {"{{define x}}{{end}}", "template: t:1: unexpected \"x\" in define clause"},
      {"{{define \"x\"}}{{else}}{{end}}", "template: t:1: unexpected {{else}} in define clause"},
      {"{{if 1}}{{define \"x\"}}{{end}}{{end}}", "template: t:1: unexpected <define> in command"},
      {"{{template x}}", "template: t:1: unexpected \"x\" in template clause"},
      {"{{block \"x\"}}{{end}}", "template: t:1: missing value for block clause"},
      {"{{range $a, $b, $c := .}}{{end}}", "template: t:1: too many declarations in range"},
      {"{{$a, $b := .}}", "template: t:1: too many declarations in command"},
      {"{{range $a, 1}}{{end}}", "template: t:1: range can only initialize variables"},
      {"{{/* x }}", "template: t:1: unclosed comment"},
      {"{{/* x */ 1}}", "template: t:1: comment ends before closing delimiter"},
      {"{{1a}}", "template: t:1: bad number syntax: \"1a\""},
      {"{{0x}}", "template: t:1: illegal number syntax: \"0x\""},
      {"{{1__0}}", "template: t:1: illegal number syntax: \"1__0\""},
      {"{{1e999}}", "template: t:1: illegal number syntax: \"1e999\""},
      {"{{99999999999999999999}}", "template: t:1: integer overflow: \"99999999999999999999\""},
      {"{{'ab'}}", "template: t:1: malformed character constant: 'ab'"},
      {"{{''}}", "template: t:1: invalid syntax"},
      {"{{\"\\z\"}}", "template: t:1: invalid syntax"},
      {"{{'a}}", "template: t:1: unterminated character constant"},
      {"{{`a}}", "template: t:1: unterminated raw quoted string"},
      {"{{a:b}}", "template: t:1: function \"a\" not defined"},
      {"{{$x:1}}", "template: t:1: undefined variable \"$x\""},
      {"{{.x@}}", "template: t:1: bad character U+0040 '@'"},
      {"{{\x01}}", "template: t:1: unrecognized character in action: U+0001"},
      {"{{\xE2\x82\xAC}}",
       "template: t:1: unrecognized character in action: U+20AC '\xE2\x82\xAC'"},
      {"{{print 1,2}}", "template: t:1: unexpected \",\" in operand"},
      {"{{if 1}}\n\n{{end}}{{end 1}}", "template: t:3: unexpected \"1\" in end"},
      {"{{\"abcdefghijklmnop\" := 1}}", "template: t:1: unexpected \":=\" in operand"},
      {"{{with 1}}{{template \"a\" | }}{{end}}",
       "template: t:1: unexpected \"|\" in template clause"},
  });
  return kCases;
}

}  // namespace nstance::test

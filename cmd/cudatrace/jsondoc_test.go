package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/doctor"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/stuck"
)

// A jsonOutput is what a command line with --format json prints.
type jsonOutput struct {
	command string // with DIR, LOG, OTHER, SIM, PID and FILES for what TestJSONOutputs has
	version int
	page    string       // that has the members, if it is not docs/json.md
	of      reflect.Type // the members
	folder  string       // of the type's source
	stderr  bool         // the object is the last line of standard error
}

// jsonOutputs are all of them. docs/json.md is made of this table, and each row is held against what the command prints.
var jsonOutputs = []jsonOutput{
	{command: "stats LOG --report kernels", version: 1, page: "stats.md#the-json"},
	{command: "diff LOG OTHER --allow-program", version: 2, page: "diff.md#the-json"},
	{command: "info LOG", version: 1, page: "info.md"},
	{command: "top LOG", version: 1, page: "top.md"},
	{command: "record -o DIR/run SIM/vectoradd", version: 1, of: reflect.TypeFor[recordedJSON](), folder: ".", stderr: true},
	{command: "repair DIR/cut.cudatrace", version: 1, of: reflect.TypeFor[repairedJSON](), folder: "."},
	{command: "probes", version: 1, of: reflect.TypeFor[probesJSON](), folder: "."},
	{command: "doctor", version: 1, of: reflect.TypeFor[doctor.Report](), folder: "../../record/doctor"},
	{command: "stuck -p PID", version: 1, of: reflect.TypeFor[stuck.Report](), folder: "../../record/stuck"},
	{command: "stuck FILES", version: 1, of: reflect.TypeFor[stuck.Program](), folder: "../../record/stuck"},
	{command: "errors", version: 1, of: reflect.TypeFor[failedJSON](), folder: ".", stderr: true},
}

// name is the heading of the members.
func (o *jsonOutput) name() string {
	words := strings.Fields(o.command)
	if words[0] == "stuck" {
		return "stuck " + words[1]
	}
	return words[0]
}

// docs/json.md has the members of each object; -update writes them. What a member means is its comment in the code.
func TestJSONIsDocumented(t *testing.T) {
	var rows, sections strings.Builder
	rows.WriteString("| object | version | members |\n|---|---|---|\n")
	for i := range jsonOutputs {
		o := &jsonOutputs[i]
		page := o.page
		if o.of != nil {
			page = "#" + strings.NewReplacer(" ", "-").Replace(strings.ToLower(o.name()))
			fmt.Fprintf(&sections, "\n## %s\n\n%s", o.name(), members(o.of, "", goldentest.Comments(o.folder)))
		}
		where, _, _ := strings.Cut(strings.TrimPrefix(page, "#"), ".md")
		fmt.Fprintf(&rows, "| `%s` | %d | [%s](%s) |\n", o.name(), o.version, where, page)
	}
	goldentest.Section(t, filepath.Join(root, "docs", "json.md"), "<!-- objects -->\n", "<!-- end -->\n",
		rows.String()+sections.String())
}

// members lists the members of an object and, with dots, those of the objects in it.
func members(of reflect.Type, before string, comments map[string]string) string {
	var list strings.Builder
	for f := range of.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case key == "-" || !f.IsExported() || f.Anonymous: // of the last, the comment of the list says so
			continue
		}
		inner, path := f.Type, before+key
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			if inner.Kind() == reflect.Slice {
				path += "[]"
			}
			inner = inner.Elem()
		}
		text := comments[of.Name()+"."+f.Name]
		if text != "" {
			text = ": " + text
		}
		fmt.Fprintf(&list, "- `%s`%s\n", path, text)
		if inner.Kind() == reflect.Struct && inner.PkgPath() == of.PkgPath() {
			list.WriteString(members(inner, path+".", comments))
		}
	}
	return list.String()
}

// What each command prints has the documented members and version.
func TestJSONOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, err := os.ReadFile(gpuLog)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cut.cudatrace"), whole[:len(whole)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "testdata/gpu/logs/never/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	other := filepath.Join(filepath.Dir(gpuLog), "nvtx.cudatrace")
	real := strings.NewReplacer("DIR", dir, "LOG OTHER", gpuLog+" "+other, "LOG", gpuLog, "SIM", filepath.Dir(sim("x")),
		"PID", fmt.Sprint(os.Getpid()), "FILES", strings.Join(files, " "), "errors", "info none.cudatrace")
	for i := range jsonOutputs {
		o := &jsonOutputs[i]
		t.Run(o.name(), func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(real.Replace(o.command))
			cmd := exec.Command("cudatrace", append([]string{words[0], "--format", "json"}, words[1:]...)...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run() // its exit code may say what was found
			text := stdout.Bytes()
			if o.stderr {
				text = stderr.Bytes()[bytes.LastIndexByte(bytes.TrimSpace(stderr.Bytes()), '\n')+1:]
			}
			into := reflect.New(reflect.TypeFor[map[string]any]())
			if o.of != nil {
				into = reflect.New(o.of)
			}
			d := json.NewDecoder(bytes.NewReader(text))
			d.DisallowUnknownFields()
			var version struct {
				Version int `json:"version"`
			}
			err2 := d.Decode(into.Interface())
			if err2 != nil || json.Unmarshal(firstObject(text), &version) != nil || version.Version != o.version {
				t.Errorf("%v, %v, version %d, want %d\n%s\n%s", err, err2, version.Version, o.version, &stdout, &stderr)
			}
		})
	}
}

// firstObject is the first JSON value of a text.
func firstObject(text []byte) (first json.RawMessage) {
	if json.NewDecoder(bytes.NewReader(text)).Decode(&first) != nil {
		return nil
	}
	return first
}

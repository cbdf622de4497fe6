package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/metadata"
	"github.com/cudatrace/cudatrace/record/must"
)

// guides are the documents that lead through the code.
var guides = []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/install.md"}

var (
	repositoryPath = regexp.MustCompile(`(?:^|[\s"'(\x60])((?:\./)?(?:bench|bpf|cmd|convert|docs|packaging|perfetto|record|testdata|\.ci)/[\w./*-]*[\w*])(?::(\w+))?`)
	markdownLink   = regexp.MustCompile(`\]\(([^)#]+)?(#[\w-]+)?\)`)
	heading        = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// TestGuides checks that every path in a guide exists, and that a file has the functions, types
// and constants that are named behind it, as in convert/files.go:FilesAt.
func TestGuides(t *testing.T) {
	t.Parallel()
	named := 0
	for _, guide := range guides {
		text := readRepository(t, guide)
		for _, m := range repositoryPath.FindAllStringSubmatch(text, -1) {
			path, name := strings.TrimPrefix(m[1], "./"), m[2]
			if strings.HasSuffix(path, "NAME.go") || strings.HasSuffix(path, "/...") {
				continue
			}
			if files, err := filepath.Glob(filepath.Join(root, path)); err != nil || len(files) == 0 {
				t.Errorf("%s names %s, which does not exist", guide, path)
			} else if name != "" {
				named++
				if !declares(t, files[0], name) {
					t.Errorf("%s names %s in %s, which has nothing of that name", guide, name, path)
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("the guides name %d functions: have these another form now?", named)
	}
}

// TestGuideLinks checks the links between the documents.
func TestGuideLinks(t *testing.T) {
	t.Parallel()
	for _, guide := range slices.Compact(slices.Sorted(slices.Values(append(pages(t), guides...)))) {
		for _, m := range markdownLink.FindAllStringSubmatch(readRepository(t, guide), -1) {
			target, anchor := m[1], strings.TrimPrefix(m[2], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := guide
			if target != "" {
				path = filepath.Join(filepath.Dir(guide), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s, which does not exist", guide, target)
			} else if anchor != "" && !hasAnchor(readRepository(t, path), anchor) {
				t.Errorf("%s links to #%s of %s, which has no such heading", guide, anchor, path)
			}
		}
	}
}

// pages are the documents in docs.
func pages(t *testing.T) (list []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(found) < 20 {
		t.Fatalf("docs has %d pages: %v", len(found), err)
	}
	for _, path := range found {
		list = append(list, filepath.Join("docs", filepath.Base(path)))
	}
	return list
}

// shownBy is a test in SECURITY.md.
var shownBy = regexp.MustCompile("^`([\\w/]+_test\\.go):((?:Test|Fuzz)\\w+)`$")

// TestSecurity checks that each row of the table in SECURITY.md says something and names tests that show it, and that go test runs
// these.
func TestSecurity(t *testing.T) {
	t.Parallel()
	rows := 0
	for line := range strings.Lines(section(t, readRepository(t, "SECURITY.md"), "## Boundaries")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.TrimSpace(cells[len(cells)-1]) == "test" {
			continue
		}
		rows++
		tests := strings.FieldsFunc(cells[len(cells)-1], func(r rune) bool { return r == ',' || r == ';' })
		if strings.TrimSpace(cells[len(cells)-2]) == "" || len(tests) == 0 {
			t.Errorf("a row says nothing, or nothing shows it: %s", line)
		}
		for _, test := range tests {
			test = strings.TrimPrefix(strings.TrimSpace(test), "in a real browser ")
			m := shownBy.FindStringSubmatch(test)
			if m == nil {
				t.Errorf("%q is no test: %s", test, line)
			} else if _, err := os.Stat(filepath.Join(root, m[1])); err != nil || !declares(t, filepath.Join(root, m[1]), m[2]) {
				t.Errorf("there is no %s in %s", m[2], m[1])
			}
		}
	}
	if rows < 25 {
		t.Errorf("SECURITY.md has %d boundaries", rows)
	}
}

// hasAnchor reports whether a Markdown text has a heading with an anchor, as GitHub makes anchors.
func hasAnchor(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		title := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(title, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// declares reports whether a source file declares a name.
func declares(t *testing.T, path, name string) bool {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	if filepath.Ext(path) != ".go" { // in C, a declaration begins in the first column
		return regexp.MustCompile(`(?m)^[a-zA-Z][^;]*\b` + name + `\b`).Match(text)
	}
	file := must.Get(parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution))(t)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == name {
				return true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if specDeclares(s, name) {
					return true
				}
			}
		}
	}
	return false
}

func specDeclares(s ast.Spec, name string) bool {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return s.Name.Name == name
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

// TestCommandsAreDocumented checks that docs/commands.md has every command, and that the index of the documents has every document.
func TestCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	text, index := readRepository(t, "docs/commands.md"), readRepository(t, "docs/README.md")
	for _, page := range pages(t) {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(index, "]("+name) {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
	for _, c := range newApp(console.New(io.Discard, io.Discard)).Commands {
		if !strings.Contains(text, "`cudatrace "+c.Name) {
			t.Errorf("docs/commands.md does not name the command %s", c.Name)
		}
	}
}

func readRepository(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
	return string(text)
}

// goFiles returns the paths of the Go files below a folder of the repository.
func goFiles(t *testing.T, folder string) (paths []string) {
	t.Helper()
	must.Do(t, fs.WalkDir(os.DirFS(root), folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// TestVariablesAreDocumented holds the list of docs/metadata.md against that of the recorder.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	var want, got []string
	for _, g := range metadata.Groups {
		when := "always"
		if g.If != "" {
			when = "`" + g.If + "` is set"
		}
		want = append(want, g.Title+": "+when+": `"+strings.Join(g.Names, "` `")+"`")
	}
	for line := range strings.Lines(section(t, readRepository(t, "docs/metadata.md"), "## Environment variables")) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") || cells[1] == " group " {
			continue
		}
		got = append(got, strings.TrimSpace(cells[1])+": "+strings.TrimSpace(cells[2])+": "+strings.TrimSpace(cells[3]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-recorder +docs/metadata.md):\n%s", diff)
	}
}

// git returns what git prints in the repository; "" after an error.
func git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

package join

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// doc.go lists all files in the order of reading: a file names functions, types and constants of its own and of the
// files below it, and its methods are those of such types.
func TestFilesInOrder(t *testing.T) {
	t.Parallel()
	doc := must.Get(os.ReadFile("doc.go"))(t)
	place := make(map[string]int) // of a file
	for i, m := range regexp.MustCompile(`(?m)^//   - (\w+\.go):`).FindAllStringSubmatch(string(doc), -1) {
		place[m[1]] = i
	}
	files := must.Get(filepath.Glob("*.go"))(t)
	parsed, definedIn := make(map[string]*ast.File), make(map[string]string)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		if _, listed := place[name]; !listed {
			t.Errorf("doc.go does not list %s", name)
		}
		f := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		parsed[name] = f
		for defined := range f.Scope.Objects {
			definedIn[defined] = name
		}
	}
	if len(place) != len(parsed) {
		t.Errorf("doc.go lists %d files of %d", len(place), len(parsed))
	}
	for name, f := range parsed {
		for _, used := range f.Unresolved {
			if of, ok := definedIn[used.Name]; ok && place[of] < place[name] {
				t.Errorf("%s uses %s of %s, which is above it", name, used.Name, of)
			}
		}
	}
}

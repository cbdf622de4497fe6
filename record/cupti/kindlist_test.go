package cupti

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	listedFile = regexp.MustCompile(`(?m)^//\t(\S+\.\w+) {2,}(.+)$`)
	sourceFile = regexp.MustCompile(`\.(go|c|h|def|txt)$`)
	poolWords  = regexp.MustCompile(`MEMORY_POOL|CT_REC_POOL|\bct_pool\b|\bput_pool\b|\brecPool\b|\bdecodePool\b|CUptiMemoryPool|tracelog\.MemoryPool\{`)
)

// kindList reads the list of files from the package's documentation: the words to find in
// each, by its path from here.
func kindList(t *testing.T) map[string][]string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(doc), "# Adding a kind of activity record")
	if !found {
		t.Fatal("doc.go has no list of the places of a kind")
	}
	files := map[string][]string{}
	for _, m := range listedFile.FindAllStringSubmatch(list, -1) {
		path, own := strings.CutPrefix(m[1], "record/cupti/")
		if !own {
			path = "../../" + path
		}
		files[path] = strings.Split(m[2], ", ")
	}
	return files
}

// TestKindList holds the list of what a new kind of record touches against the files: each
// has the words of the kind that the list names, and no other file has any of them.
func TestKindList(t *testing.T) {
	t.Parallel()
	list := kindList(t)
	if len(list) < 10 {
		t.Fatalf("the list has %d files", len(list))
	}
	for file, words := range list {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, w := range words {
			if !strings.Contains(string(b), w) {
				t.Errorf("%s has no %q", file, w)
			}
		}
	}
	for _, file := range append(filesWithPools(t, "."), filesWithPools(t, "../../testdata/sim")...) {
		if list[file] == nil && file != "doc.go" && file != "kindlist_test.go" {
			t.Errorf("%s is not on the list", file)
		}
	}
}

// filesWithPools returns the files of a folder that have words of memory pools.
func filesWithPools(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !sourceFile.MatchString(path) {
			return err
		}
		b, err := os.ReadFile(path)
		if poolWords.Match(b) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

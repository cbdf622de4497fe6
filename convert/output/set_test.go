package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// set writes files with these names into an output, each with its name as its content.
func set(dir, path, folder string, names ...string) (int, error) {
	return Files(dir+"/"+path, filepath.Join(dir, folder), func(s *Set) error {
		for _, name := range names {
			f, err := s.Create(name)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(f, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// tree shows a folder with the folders in it.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for name, text := range contents(t, dir) {
		if !strings.HasSuffix(name, "/") {
			all[name] = text
			continue
		}
		for below, text := range contents(t, filepath.Join(dir, name)) {
			all[name+below] = text
		}
	}
	return all
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		before  map[string]string
		path    string
		names   []string
		after   map[string]string
		failure string
	}{
		{"a single file has the output's name", nil, "x.json", []string{"a.json"}, map[string]string{"x.json": "a.json"}, ""},
		{"a single file replaces an earlier one", map[string]string{"x.json": "old"}, "x.json", []string{"a.json"}, map[string]string{"x.json": "a.json"}, ""},
		{"a link stays", map[string]string{"x.json": "-> y", "y": "old"}, "x.json", []string{"a.json"}, map[string]string{"x.json": "-> y", "y": "a.json"}, ""},
		{"a folder is in a single file's way", map[string]string{"x.json/": ""}, "x.json", []string{"a.json"}, map[string]string{}, "a folder of that name is in the way"},
		{"several files are in the folder", map[string]string{"x.json": "old"}, "x.json", []string{"a.json", "b.json"}, map[string]string{"x.json": "old", "x/a.json": "a.json", "x/b.json": "b.json"}, ""},
		{"equal names get numbers", nil, "x.json", []string{"a.t.json", "a.t.json", "a.t.json"}, map[string]string{"x/a.t.json": "a.t.json", "x/a-2.t.json": "a.t.json", "x/a-3.t.json": "a.t.json"}, ""},
		{"one file in a folder", nil, "x/", []string{"a.json"}, map[string]string{"x/a.json": "a.json"}, ""},
		{"a file is in the folder's way", map[string]string{"x": "mine"}, "x.json", []string{"a.json", "b.json"}, map[string]string{"x": "mine"}, "not a directory"},
		{"no files", nil, "x.json", nil, map[string]string{}, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, c.before)
			n, err := set(dir, c.path, "x", c.names...)
			if c.failure == "" && (err != nil || n != len(c.names)) || c.failure != "" && (err == nil || !strings.Contains(err.Error(), c.failure)) {
				t.Errorf("%d files, %v", n, err)
			}
			if diff := cmp.Diff(c.after, tree(t, dir)); diff != "" {
				t.Errorf("the folder (-want +got):\n%s", diff)
			}
		})
	}
}

// The folder of an earlier output is replaced as a whole; a folder with anything else stays.
func TestFilesReplaceFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, names := range [][]string{{"a.t.json.gz", "b.t.json.gz"}, {"c.t.json", "d.t.json"}} {
		if _, err := set(dir, "x", "x", names...); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"x/" + names[0]: names[0], "x/" + names[1]: names[1]}, tree(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if err := os.WriteFile(dir+"/x/notes.txt", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := set(dir, "x", "x", "e.t.json", "f.t.json")
	if err == nil || !strings.Contains(err.Error(), "notes.txt, which is no trace of an earlier conversion") {
		t.Errorf("%v", err)
	}
	if got := tree(t, dir); len(got) != 3 || got["x/notes.txt"] != "mine" {
		t.Errorf("%v", got)
	}
}

// A failure leaves what was there, and nothing else.
func TestFilesFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	dir := folder(t, map[string]string{"x.json": "old"})
	_, err := Files(dir+"/x.json", dir+"/x", func(s *Set) error {
		_, err := s.Create("a.json")
		return errors.Join(err, broken)
	})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
	if _, err := set(dir, "none/x.json", "none/x", "a.json"); err == nil || !strings.Contains(err.Error(), "the folder does not exist") {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"x.json": "old"}, tree(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A pipe takes one file.
func TestFilesPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{"a.json"}, {"a.json", "b.json"}} {
		read := make(chan string)
		go func() {
			text, err := os.ReadFile(dir + "/pipe")
			read <- fmt.Sprintf("%s %v", text, err)
		}()
		_, err := set(dir, "pipe", "x", names...)
		if got := <-read; got != "a.json <nil>" || (err == nil) != (len(names) == 1) {
			t.Errorf("%q, %v", got, err)
		}
		if err != nil && !strings.Contains(err.Error(), ErrSeveral.Error()) {
			t.Error(err)
		}
	}
}

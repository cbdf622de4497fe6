package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

const manifest = "_files.txt"

// writeTree makes a tree of files, each with its name as its text.
func writeTree(path string, named bool, how kind, names ...string) (Done, error) {
	return writeSet(path, Options{Named: named, Manifest: manifest}, how, names...)
}

// treeOf lists the files below a folder.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	must.Do(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			all = append(all, path)
		}
		return err
	}))
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestTree makes a tree, and another one in its place.
func TestTree(t *testing.T) {
	for _, how := range kinds {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		done := must.Get(writeTree(out, true, how, "a/x=1/f.p", "b/x=1/f.p"))(t)
		if done.Path != out || done.Files != 3 || done.Replaced {
			t.Errorf("%s: %+v", how, done)
		}
		done = must.Get(writeTree(out+"/", true, how, "a/x=2/f.p", "c.p"))(t)
		if got := treeOf(t, dir); got != "out/_files.txt out/a/x=2/f.p out/c.p" || !done.Replaced {
			t.Errorf("%s: %s %+v", how, got, done)
		}
		text := must.Get(os.ReadFile(filepath.Join(out, manifest)))(t)
		if string(text) != "a/x=2/f.p\nc.p\n" {
			t.Errorf("%s: the manifest is %q", how, text)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: %v is left, %v", how, entries, err)
		}
	}
}

// TestTreePartlyRemoved replaces a tree that could not be removed as a whole before, in whatever order that was tried.
func TestTreePartlyRemoved(t *testing.T) {
	runtime.LockOSThread() // which ends with the test
	folders := strings.Fields("a b c d e f g h")
	for _, stays := range folders {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		must.Get(writeTree(out, true, nameless, "a/f.p", "b/f.p", "c/f.p", "d/f.p", "e/f.p", "f/f.p", "g/f.p", "h/f.p"))(t)
		must.Do(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777), os.Chmod(out, 0o777)))
		for _, name := range folders {
			must.Do(t, os.Chmod(filepath.Join(out, name), 0o777))
		}
		must.Do(t, os.Chmod(filepath.Join(out, stays), 0o555))
		if os.Getuid() == 0 { // root may remove everything
			must.Get(unix.SetfsuidRetUid(65534))(t)
		}
		if _, err := writeTree(out, true, nameless, "i.p"); err == nil {
			t.Errorf("%s could be removed", stays)
		}
		must.Get(unix.SetfsuidRetUid(os.Getuid()))(t)
		must.Do(t, os.Chmod(filepath.Join(out, stays), 0o755))
		done := must.Get(writeTree(out, true, nameless, "i.p"))(t)
		if got := treeOf(t, dir); got != "out/_files.txt out/i.p" || !done.Replaced {
			t.Errorf("%s: %s %+v", stays, got, done)
		}
	}
}

// TestTreeOfOthers leaves a folder as it is that holds anything but a tree.
func TestTreeOfOthers(t *testing.T) {
	for _, c := range []struct {
		name    string
		strange string
		change  func(out string) error
	}{
		{"a file beside", "mine", func(out string) error { return os.WriteFile(filepath.Join(out, "mine"), nil, 0o600) }},
		{"a file of another tree", "a/x=1/other.p", func(out string) error { return os.WriteFile(filepath.Join(out, "a/x=1/other.p"), nil, 0o600) }},
		{"an empty folder", "a/y", func(out string) error { return os.Mkdir(filepath.Join(out, "a/y"), 0o700) }},
		{"a link", "a/link", func(out string) error { return os.Symlink("/etc/passwd", filepath.Join(out, "a/link")) }},
		{"no manifest", "", func(out string) error { return os.Remove(filepath.Join(out, manifest)) }},
	} {
		out := filepath.Join(t.TempDir(), "out")
		_, err := writeTree(out, true, nameless, "a/x=1/f.p")
		must.Do(t, err)
		must.Do(t, c.change(out))
		before := treeOf(t, out)
		_, err = writeTree(out, true, nameless, "b/f.p")
		if err == nil || !strings.Contains(err.Error(), "holds "+c.strange) || !strings.Contains(err.Error(), "not of an earlier conversion") {
			t.Errorf("%s: %v", c.name, err)
		}
		if after := treeOf(t, out); after != before {
			t.Errorf("%s: %s, not %s", c.name, after, before)
		}
	}
}

// TestTreeTaken does not touch a folder that nobody named.
func TestTreeTaken(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run.parquet")
	for n := 1; n <= 2; n++ {
		done := must.Get(writeTree(out, false, nameless, fmt.Sprintf("a/%d.p", n)))(t)
		if done.Taken != (n == 2) {
			t.Errorf("%+v", done)
		}
	}
	if got := treeOf(t, filepath.Dir(out)); got != "run-2.parquet/_files.txt run-2.parquet/a/2.p run.parquet/_files.txt run.parquet/a/1.p" {
		t.Error(got)
	}
}

// TestTreeInTheWay fails where a file has the folder's name.
func TestTreeInTheWay(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	must.Do(t, os.WriteFile(out, []byte("mine"), 0o600))
	if _, err := writeTree(out, true, nameless, "a/f.p"); err == nil || !strings.Contains(err.Error(), "it is not a folder") {
		t.Error(err)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestTreeFails leaves nothing where a file cannot get its name.
func TestTreeFails(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"c/d/" + strings.Repeat("x", 300), "a/f.p/g.p"} {
		if _, err := writeTree(filepath.Join(dir, "out"), true, nameless, "a/f.p", name); err == nil {
			t.Errorf("%s is written", name)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s: left is %v, %v", name, left, err)
		}
	}
}

// TestTreeManifest reads no paths out of a manifest that are too deep for a tree.
func TestTreeManifest(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, manifest), []byte("a/b.p\n"+strings.Repeat("x/", 10_000)+"y\n\n../up\n/root\n"), 0o600))
	f := must.Get(os.Open(dir))(t)
	defer f.Close()
	listed, err := readManifest(f, manifest)
	if must.Do(t, err); len(listed) > 8 || !listed["a"] || !listed["a/b.p"] {
		t.Errorf("%d are listed", len(listed))
	}
}

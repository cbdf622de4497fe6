package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// folder makes a folder with files: a text each, or the target of a link after "-> ".
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		var err error
		if target, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(target, path)
		} else if strings.HasSuffix(name, "/") {
			err = os.Mkdir(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// contents shows a folder as folder takes it.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	list := must.Get(os.ReadDir(dir))(t)
	files := make(map[string]string)
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			files[e.Name()+"/"] = ""
		case e.Type()&fs.ModeSymlink != 0:
			target := must.Get(os.Readlink(path))(t)
			files[e.Name()] = "-> " + target
		default:
			text := must.Get(os.ReadFile(path))(t)
			files[e.Name()] = string(text)
		}
	}
	return files
}

// makeFile makes a file at a path that a person named.
func makeFile(path string, write func(io.Writer) error) error {
	target, err := outfile.At(path, outfile.Options{Named: true, Special: true})
	if err != nil {
		return err
	}
	defer target.Close()
	_, err = File(target, write)
	return err
}

var errWrite = errors.New("out of events")

// A file that cannot be written leaves the earlier one, and one that grows does, too. Package outfile has tests of names.
func TestFile(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"x": "old"})
	path := filepath.Join(dir, "x")
	err := makeFile(path, func(w io.Writer) error {
		io.WriteString(w, "half of it")
		return errWrite
	})
	if got, want := fmt.Sprint(err), "cannot write "+path+": out of events"; got != want {
		t.Errorf("a failure is told as %q, want %q", got, want)
	}
	goldentest.Same(t, map[string]string{"x": "old"}, contents(t, dir), "after a failure")
	must.Do(t, makeFile(path, func(w io.Writer) error {
		if during := contents(t, dir); during["x"] != "old" {
			t.Errorf("while the new file grows there are %q", during)
		}
		_, err := io.WriteString(w, "new")
		return err
	}))
	goldentest.Same(t, map[string]string{"x": "new"}, contents(t, dir), "after success")
}

func TestFileWithoutFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "no", "x")
	err := makeFile(path, func(io.Writer) error { t.Error("something is written"); return nil })
	if got, want := fmt.Sprint(err), "cannot write "+path+": the folder "+filepath.Dir(path)+" does not exist"; got != want {
		t.Errorf("the error is %q, want %q", got, want)
	}
}

// What is no regular file is written to as it is, and stays.
func TestFileIsPipe(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"link": "-> x"})
	path := filepath.Join(dir, "x")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	for _, failing := range []error{nil, errWrite} {
		read := make(chan string)
		go func() {
			text, err := os.ReadFile(path)
			read <- fmt.Sprintf("%s, %v", text, err)
		}()
		err := makeFile(filepath.Join(dir, "link"), func(w io.Writer) error {
			_, err := io.WriteString(w, "piped")
			return errors.Join(err, failing)
		})
		if got := <-read; got != "piped, <nil>" || (err == nil) != (failing == nil) {
			t.Errorf("the reader has %q, the writer %v", got, err)
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 || list[1].Type() != fs.ModeNamedPipe {
		t.Errorf("the folder has %v, %v", list, err)
	}
}

func TestSameFile(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"a": "text", "b": "text", "link": "-> a", "lost": "-> nothing"})
	must.Do(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "hard")))
	for other, want := range map[string]bool{"a": true, "link": true, "hard": true, "b": false, "none": false, "lost": false} {
		if SameFile(filepath.Join(dir, "a"), filepath.Join(dir, other)) != want || SameFile(filepath.Join(dir, other), filepath.Join(dir, "a")) != want {
			t.Errorf("a and %s: want %t", other, want)
		}
	}
	if lost := filepath.Join(dir, "lost"); SameFile(lost, lost) {
		t.Error("what does not exist is a file")
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, "the folder does not exist"},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "no permission in that folder; choose another place"},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, "no space left on device"},
		{fmt.Errorf("outer: %w", &os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.EXDEV}), "invalid cross-device link"},
		{errWrite, "out of events"},
	} {
		if got := Reason(c.err); got != c.want {
			t.Errorf("%v is told as %q, want %q", c.err, got, c.want)
		}
	}
}

// Files makes one or several files; the first failure is said once.
func TestFiles(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		before map[string]string
		names  []string
		after  map[string]string
		says   string
	}{
		"one":     {nil, []string{"a.json"}, map[string]string{"x.json": "a.json"}, ""},
		"several": {nil, []string{"a.json", "b.json"}, map[string]string{"x/": ""}, ""},
		"no room": {map[string]string{"x": "mine"}, []string{"a.json", "b.json"}, map[string]string{"x": "mine"}, "x is not a folder: choose another name with -o"},
		"broken":  {nil, []string{"a.json", "broken"}, map[string]string{}, "broken"},
	} {
		dir := folder(t, c.before)
		target, err := outfile.At(dir+"/x.json", outfile.Options{Named: true, Folder: func(string) string { return "x" }})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Files(target, func(create Creator) error {
			for _, name := range c.names {
				w, err := create(name)
				if name == "broken" {
					err = errors.New(name)
				}
				if err != nil {
					return err
				}
				if _, err := io.WriteString(w, name); err != nil {
					return err
				}
			}
			return nil
		})
		target.Close()
		if (err == nil) != (c.says == "") || err != nil && (!strings.HasSuffix(err.Error(), c.says) || strings.Count(err.Error(), "cannot write") != 1) {
			t.Errorf("%s: the error is %v", what, err)
		}
		goldentest.Same(t, c.after, contents(t, dir), "%s", what)
	}
}

// A pipe takes one file.
func TestFilesPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	read := make(chan string)
	go func() {
		text, err := os.ReadFile(path)
		read <- fmt.Sprintf("%s %v", text, err)
	}()
	target, err := outfile.At(path, outfile.Options{Named: true, Special: true, Folder: func(name string) string { return name }})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	_, err = Files(target, func(create Creator) error {
		w, err := create("a.json")
		if err == nil {
			_, err = io.WriteString(w, "text")
		}
		_, second := create("b.json")
		return errors.Join(err, second)
	})
	if got := <-read; got != "text <nil>" || !errors.Is(err, ErrSeveral) && (err == nil || !strings.Contains(err.Error(), ErrSeveral.Error())) {
		t.Errorf("%q, %v", got, err)
	}
}

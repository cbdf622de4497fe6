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

// TestFile makes the file x in a folder, and once fails to.
func TestFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after map[string]string
		err           string // also of the attempt that succeeds
	}{
		"a new file": {nil, map[string]string{"x": "new"}, ""},
		"in place of another": {
			map[string]string{"x": "old", "y": "y"}, map[string]string{"x": "new", "y": "y"}, ""},
		"through a link": {
			map[string]string{"x": "-> y", "y": "old"}, map[string]string{"x": "-> y", "y": "new"}, ""},
		"in place of a link to nothing": {
			map[string]string{"x": "-> y"}, map[string]string{"x": "new"}, ""},
		"in place of a folder": {
			map[string]string{"x/": ""}, map[string]string{"x/": ""}, ": a folder of that name is in the way"},
		"in place of a link to a folder": {
			map[string]string{"x": "-> y", "y/": ""}, map[string]string{"x": "-> y", "y/": ""}, ": a folder of that name is in the way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, c.before)
			path := filepath.Join(dir, "x")
			err := makeFile(path, func(w io.Writer) error {
				io.WriteString(w, "half of it")
				return errWrite
			})
			want := ": out of events"
			if c.err != "" {
				want = c.err
			}
			if got := fmt.Sprint(err); got != "cannot write "+path+want {
				t.Errorf("a failure is told as %q, want %q", got, want)
			}
			sameFolder(t, "a failure", dir, c.before)

			err = makeFile(path, func(w io.Writer) error {
				during := contents(t, dir)
				for name, text := range c.before {
					if during[name] != text {
						t.Errorf("while the new file grows %s is %q", name, during[name])
					}
				}
				_, err := io.WriteString(w, "new")
				return err
			})
			if c.err == "" && err != nil || c.err != "" && fmt.Sprint(err) != "cannot write "+path+c.err {
				t.Errorf("the error is %v", err)
			}
			sameFolder(t, "success", dir, c.after)
		})
	}
}

func sameFolder(t *testing.T, after, dir string, want map[string]string) {
	t.Helper()
	if got := contents(t, dir); fmt.Sprint(got) != fmt.Sprintf("%v", nonNil(want)) {
		t.Errorf("after %s the folder has %q, want %q", after, got, want)
	}
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// A file whose name is taken while it grows gets a number.
func TestFileNameIsTaken(t *testing.T) {
	t.Parallel()
	dir := folder(t, nil)
	path := filepath.Join(dir, "x")
	err := makeFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return errors.Join(err, os.Mkdir(path, 0o755))
	})
	if err != nil {
		t.Errorf("the error is %v", err)
	}
	sameFolder(t, "the end", dir, map[string]string{"x/": "", "x-2": "new"})
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

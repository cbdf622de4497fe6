package outfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// write makes a file with a text, and returns where it stands.
func write(path, text string, o Options, how kind) (Done, error) {
	target, err := At(path, o)
	if err != nil {
		return Done{}, err
	}
	defer target.Close()
	f, err := target.begin(how)
	if err != nil {
		return Done{}, err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return Done{}, errors.Join(err, f.Discard())
	}
	return f.Commit()
}

// A kind is a way to make a file.
type kind string

const (
	nameless kind = "nameless"
	partial  kind = "partial"
	simple   kind = "partial, where the file system has simple renames only"
)

var kinds = []kind{nameless, partial, simple}

// begin makes a file.
func (t *Target) begin(how kind) (*File, error) {
	if how == simple {
		t.rename = func(int, string, int, string, uint) error { return unix.EINVAL }
	}
	if how == nameless {
		return t.Create()
	}
	return t.CreatePartial()
}

// listing is the content of a folder: "name=text", or "name->target" for a link.
func listing(t *testing.T, dir string) string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	var all []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if target, err := os.Readlink(path); err == nil {
			all = append(all, e.Name()+"->"+target)
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			text = []byte("?")
		}
		all = append(all, e.Name()+"="+string(text))
	}
	return strings.Join(all, " ")
}

// TestNames makes a.pftrace where other files stand.
func TestNames(t *testing.T) {
	t.Parallel()
	named := Options{Named: true}
	for name, c := range map[string]struct {
		before func(dir string) error
		opts   Options
		after  string // or the error
		done   Done
	}{
		"free":             {nil, Options{}, "a.pftrace=new", Done{Path: "a.pftrace"}},
		"free, named":      {nil, named, "a.pftrace=new", Done{Path: "a.pftrace"}},
		"taken":            {file("a.pftrace"), Options{}, "a-2.pftrace=new a.pftrace=old", Done{Path: "a-2.pftrace", Taken: true}},
		"taken, named":     {file("a.pftrace"), named, "a.pftrace=new", Done{Path: "a.pftrace", Replaced: true}},
		"twice taken":      {files("a.pftrace", "a-2.pftrace"), Options{}, "a-2.pftrace=old a-3.pftrace=new a.pftrace=old", Done{Path: "a-3.pftrace", Taken: true}},
		"link":             {link("a.pftrace", "b"), Options{}, "a-2.pftrace=new a.pftrace->b", Done{Path: "a-2.pftrace", Taken: true}},
		"link, named":      {both(file("b"), link("a.pftrace", "b")), named, "a.pftrace->b b=new", Done{Path: "a.pftrace", Replaced: true}},
		"far link, named":  {both(file("b"), both(link("c", "b"), link("a.pftrace", "./c"))), named, "a.pftrace->./c b=new c->b", Done{Path: "a.pftrace", Replaced: true}},
		"dangling, named":  {link("a.pftrace", "b"), named, "a.pftrace=new", Done{Path: "a.pftrace", Replaced: true}},
		"circle, named":    {link("a.pftrace", "a.pftrace"), named, "too many levels of symbolic links", Done{}},
		"folder":           {folder("a.pftrace"), Options{}, "a-2.pftrace=new a.pftrace=?", Done{Path: "a-2.pftrace", Taken: true}},
		"folder, named":    {folder("a.pftrace"), named, "a folder of that name is in the way", Done{}},
		"pipe":             {pipe("a.pftrace"), named, "it is not a regular file", Done{}},
		"link to a pipe":   {both(pipe("b"), link("a.pftrace", "b")), named, "it is not a regular file", Done{}},
		"link to a device": {link("a.pftrace", "/dev/null"), named, "it is not a regular file", Done{}},
	} {
		for _, how := range kinds {
			t.Run(name+"/"+string(how), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if c.before != nil {
					must.Do(t, c.before(dir))
				}
				done, err := write(filepath.Join(dir, "a.pftrace"), "new", c.opts, how)
				if err != nil {
					if !strings.Contains(err.Error(), c.after) || !strings.HasPrefix(err.Error(), "cannot write "+dir+"/a.pftrace: ") {
						t.Errorf("the error is %v", err)
					}
					return
				}
				done.Path = strings.TrimPrefix(done.Path, dir+"/")
				if got := listing(t, dir); got != c.after || done != c.done {
					t.Errorf("the folder has %s, %+v", got, done)
				}
			})
		}
	}
}

func file(name string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600) }
}

func files(a, b string) func(string) error { return both(file(a), file(b)) }

func link(name, to string) func(string) error {
	return func(dir string) error { return os.Symlink(to, filepath.Join(dir, name)) }
}

func folder(name string) func(string) error {
	return func(dir string) error { return os.Mkdir(filepath.Join(dir, name), 0o700) }
}

func pipe(name string) func(string) error {
	return func(dir string) error { return unix.Mkfifo(filepath.Join(dir, name), 0o600) }
}

func both(a, b func(string) error) func(string) error {
	return func(dir string) error { return errors.Join(a(dir), b(dir)) }
}

// TestMeanwhile commits a file whose name another one has got since the target was made: the other
// stays.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	for _, how := range kinds {
		for _, before := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, "a.cudatrace")
			if before {
				must.Do(t, file("a.cudatrace")(dir))
			}
			target := must.Get(At(path, Options{Named: true}))(t)
			f := must.Get(target.begin(how))(t)
			must.Get(f.WriteString("new"))(t)
			must.Get(write(path, "other", Options{Named: true}, partial))(t)
			if !target.IsTaken(1) || target.IsTaken(2) {
				t.Error("what is taken is not seen")
			}
			done, err := f.Commit()
			if got := listing(t, dir); err != nil || got != "a-2.cudatrace=new a.cudatrace=other" || done.Replaced || !done.Taken {
				t.Errorf("%s, before %t: the folder has %s, %+v, %v", how, before, got, done, err)
			}
			target.Close()
		}
	}
}

// TestRemovedMeanwhile commits a file in the place of one that somebody has removed.
func TestRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, how := range kinds {
		dir := t.TempDir()
		must.Do(t, file("a")(dir))
		target := must.Get(At(filepath.Join(dir, "a"), Options{Named: true}))(t)
		f := must.Get(target.begin(how))(t)
		must.Do(t, os.Remove(filepath.Join(dir, "a")))
		if done, err := f.Commit(); err != nil || done.Replaced || listing(t, dir) != "a=" {
			t.Errorf("%s: %s, %+v, %v", how, listing(t, dir), done, err)
		}
		target.Close()
	}
}

// TestSameNameAtOnce makes many files of one name at the same time: each stays whole, under a name of
// its own.
func TestSameNameAtOnce(t *testing.T) {
	t.Parallel()
	const many = 40
	for _, named := range []bool{false, true} {
		dir := t.TempDir()
		must.Do(t, file("a.cudatrace")(dir))
		var all sync.WaitGroup
		var mu sync.Mutex
		texts := map[string]string{}
		var opened sync.WaitGroup
		opened.Add(many)
		for i := range many {
			all.Go(func() {
				target, err := At(filepath.Join(dir, "a.cudatrace"), Options{Named: named})
				opened.Done()
				if err != nil {
					t.Error(err)
					return
				}
				defer target.Close()
				opened.Wait()
				f, err := target.begin(kinds[i%2])
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprint(f, i)
				done, err := f.Commit()
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if _, again := texts[done.Path]; again {
					t.Errorf("%s is made twice", done.Path)
				}
				texts[done.Path] = fmt.Sprint(i)
			})
		}
		all.Wait()
		for path, text := range texts {
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%s has %q, want %q; %v", path, got, text, err)
			}
		}
		want := many + 1
		if named {
			want = many // one has replaced the file that was there
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != want {
			t.Errorf("named %t: %d files, %v", named, len(list), err)
		}
	}
}

// TestAbandon leaves nothing behind, whenever it comes.
func TestAbandon(t *testing.T) {
	t.Parallel()
	for _, how := range kinds {
		dir := t.TempDir()
		target := must.Get(At(filepath.Join(dir, "a"), Options{}))(t)
		f := must.Get(target.begin(how))(t)
		if abandoned, err := target.Abandon(); err != nil || !abandoned {
			t.Errorf("abandoned %t, %v", abandoned, err)
		}
		if _, err := f.Commit(); err == nil || listing(t, dir) != "" {
			t.Errorf("%v, the folder has %s", err, listing(t, dir))
		}
		target.Close()
	}
	dir := t.TempDir()
	target := must.Get(At(filepath.Join(dir, "a"), Options{}))(t)
	defer target.Close()
	f := must.Get(target.Create())(t)
	must.Get(f.Commit())(t)
	if abandoned, err := target.Abandon(); err != nil || abandoned || listing(t, dir) != "a=" {
		t.Errorf("a file that was whole is gone")
	}
}

// TestKilled leaves no part of a file behind when the process is gone: without a name there is none.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := must.Get(At(filepath.Join(dir, "a"), Options{}))(t)
	defer target.Close()
	nameless, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skipf("the file system has no files without a name: %v", err)
	}
	unix.Close(nameless)
	f := must.Get(target.Create())(t)
	defer f.Close()
	if got := listing(t, dir); got != "" {
		t.Errorf("while it grows the folder has %s", got)
	}
}

// TestStdout finds open files behind their paths.
func TestStdout(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	must.Do(t, err)
	defer read.Close()
	defer write.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", write.Fd())
	target := must.Get(At(path, Options{Named: true, Special: true}))(t)
	defer target.Close()
	if !target.IsSpecial() {
		t.Fatal("a pipe is not special")
	}
	f := must.Get(target.OpenSpecial())(t)
	_, err = f.WriteString("piped")
	must.Do(t, errors.Join(err, f.Close()))
	text := make([]byte, 10)
	if n, err := read.Read(text); err != nil || string(text[:n]) != "piped" {
		t.Errorf("%q, %v", text[:n], err)
	}
	if _, err := At(path, Options{Named: true}); err == nil {
		t.Error("a recording can be written to a pipe")
	}
}

func TestNumbered(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a": "a-2", "a.pftrace": "a-2.pftrace", "a.b.cudatrace": "a.b-2.cudatrace", "a.repaired.cudatrace": "a-2.repaired.cudatrace", "x.json": "x-2.json",
	} {
		if got := numbered(name, 2); got != want || numbered(name, 1) != name {
			t.Errorf("%s becomes %s", name, got)
		}
	}
}

// A file that grows can become one of another target in the same folder, under its partial name.
func TestMove(t *testing.T) {
	for _, how := range kinds {
		dir := t.TempDir()
		from := must.Get(At(dir+"/from", Options{Named: true}))(t)
		f := must.Get(from.begin(how))(t)
		elsewhere := must.Get(At(t.TempDir()+"/to", Options{Named: true}))(t)
		if err := f.Move(elsewhere); err == nil || !strings.Contains(err.Error(), "another folder") {
			t.Errorf("%s: %v", how, err)
		}
		must.Do(t, os.WriteFile(dir+"/to", nil, 0o600))
		to := must.Get(At(dir+"/to", Options{Named: true}))(t)
		must.Do(t, f.Move(to))
		from.Close()
		done := must.Get(f.Commit())(t)
		if want := (Done{Path: dir + "/to", Replaced: true}); done != want {
			t.Errorf("%s: %+v, want %+v", how, done, want)
		}
		must.Do(t, f.Close())
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 || names[0].Name() != "to" {
			t.Errorf("%s: %v, %v", how, names, err)
		}
		to.Close()
	}
}

package errno

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOSPC}, "no space left on device"},
		{fmt.Errorf("around it: %w", os.NewSyscallError("bpf", syscall.EPERM)), "operation not permitted"},
		{errors.New("its own words"), "its own words"},
		{os.NewSyscallError("bpf", syscall.ENFILE), "too many files are open on this machine: raise its limit (sysctl fs.file-max)"},
	} {
		if got := Words(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// The limit of open files is named, with the remedy.
func TestOpenFiles(t *testing.T) {
	err := Plain(fmt.Errorf("around it: %w", syscall.EMFILE))
	var limit int
	if _, e := fmt.Sscanf(err.Error(), "the limit of %d open files is too low: raise it (ulimit -n", &limit); e != nil || limit < 3 || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%q", err)
	}
}

func TestWriting(t *testing.T) {
	for number, want := range map[syscall.Errno]string{
		syscall.ENOENT: "the folder /dir does not exist",
		syscall.EACCES: "no permission in folder /dir; choose another place with -o",
		syscall.EROFS:  "the file system of /dir is read-only",
		syscall.EDQUOT: "no space left in /dir",
		syscall.EIO:    "input/output error",
	} {
		text := Writing("/dir/file", &fs.PathError{Op: "open", Path: "/dir/temporary", Err: number}).Error()
		if !strings.HasPrefix(text, "cannot write /dir/file: ") || !strings.Contains(text, want) || strings.Contains(text, "temporary") {
			t.Errorf("%v: %q", number, text)
		}
	}
}

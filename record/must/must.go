// Package must ends a test that lacks what it needs. Input: an error, or the rights of the process. Output: a failed
// test, or a skipped one.
package must

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// Do ends the test if there is an error.
func Do(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns a function's first result, and ends the test if the function returns an error:
//
//	data := must.Get(os.ReadFile(path))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Wait waits until something holds, and ends the test with what instead says where it does not: the time only bounds a
// failure.
func Wait(t testing.TB, holds func() bool, instead func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(instead())
		}
	}
}

// BeRoot skips a test that needs root.
func BeRoot(t testing.TB) {
	if os.Geteuid() != 0 {
		t.Helper()
		t.Skip("needs root")
	}
}

// Run runs a command, returns what it writes to both outputs, and ends the test if the command fails.
func Run(t testing.TB, cmd *exec.Cmd) []byte {
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Helper()
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// Package pipetest starts programs that a test talks to. Input: a command. Output: the ends of the
// pipes that are its standard input and output.
package pipetest

import (
	"errors"
	"io"
	"os/exec"
	"testing"
)

// Start starts a command. Its caller waits for it.
func Start(t testing.TB, cmd *exec.Cmd) (input io.WriteCloser, output io.ReadCloser) {
	t.Helper()
	input, inputErr := cmd.StdinPipe()
	output, outputErr := cmd.StdoutPipe()
	if err := errors.Join(inputErr, outputErr); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return input, output
}

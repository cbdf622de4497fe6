// Package pipetest starts programs that a test talks to. Input: a command. Output: the ends of the
// pipes that are its standard input and output.
package pipetest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// DefaultSignals gives the programs that a test starts the default action of SIGHUP and SIGINT, also
// where this process was started with them ignored, as nohup and background jobs of scripts are.
func DefaultSignals() {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT) // what is caught is reset by exec
	go func() {
		if s, ok := (<-caught).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	}()
}

// Start starts a command. Its caller waits for it.
func Start(t testing.TB, cmd *exec.Cmd) (input io.WriteCloser, output io.ReadCloser) {
	t.Helper()
	input, inputErr := cmd.StdinPipe()
	output, outputErr := cmd.StdoutPipe()
	must.Do(t, errors.Join(inputErr, outputErr))
	must.Do(t, cmd.Start())
	return input, output
}

package main

import (
	"fmt"
	"strings"
)

// The names of commands that others mention.
const (
	convertName = "convert"
	diffName    = "diff"
	helpName    = "help"
	openName    = "open"
	recordName  = "record"
)

// usageError is a wrong command line.
type usageError struct {
	msg   string
	write string // the command line to use instead, "" where none is known
}

func (e usageError) Error() string { return e.msg }

func usagef(command, format string, args ...any) error {
	help := strings.TrimSpace("cudatrace help " + command)
	return usageError{msg: fmt.Sprintf(format, args...) + fmt.Sprintf("; see '%s'", help)}
}

// commandUsage makes the errors for wrong command lines of a command.
func commandUsage(name string) func(format string, args ...any) error {
	return func(format string, args ...any) error { return usagef(name, format, args...) }
}

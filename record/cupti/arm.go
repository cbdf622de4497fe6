package cupti

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/armedpage"
	"github.com/cudatrace/cudatrace/record/cupti/privatefolder"
)

// Arm makes a folder with the library for programs that wait for a recorder, and returns the setting
// ("NAME=VALUE") by which the driver loads it. The programs start under a number of filters of system calls.
func Arm(filters uint32) (setting string, err error) {
	if len(library) == 0 {
		return "", errNoLibrary
	}
	path, err := privatefolder.MakeArmed(privatefolder.Bases(), library, armedpage.New(filters))
	if err != nil {
		return "", err
	}
	return InjectionVar + "=" + path, nil
}

// Disarm removes what Arm made, for a program that could not be started.
func Disarm(setting string) {
	privatefolder.RemoveArmed(strings.TrimPrefix(setting, InjectionVar+"="))
}

// IsArmed says whether an environment has programs wait for a recorder.
func IsArmed(env []string) bool {
	return slices.ContainsFunc(env, func(e string) bool {
		path, ok := strings.CutPrefix(e, InjectionVar+"=")
		return ok && privatefolder.Arms(path)
	})
}

var errNoLibrary = errors.New("there is no injected library for this processor; CUDA runs on amd64 and arm64")

// An Entrance is a socket to which processes of an owner connect.
type Entrance struct {
	Listener *net.UnixListener
	Owner    Owner
}

// Join returns a Server for processes that run already and wait for a recorder. Close closes the entrances.
func Join(sink Sink, entrances []Entrance) (*Server, error) {
	return newServer(&Server{sink: sink, entrances: entrances, peers: newPeerSet()}, false)
}

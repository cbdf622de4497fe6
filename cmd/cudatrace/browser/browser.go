// Package browser hands one trace to Perfetto's UI in a web browser, or shows one page there.
//
// Input: an open file with a trace. The package serves it on loopback, and nothing else: at an
// address that cannot be guessed, to one origin, to requests for this machine. Output: the trace in the
// browser's memory.
//
// There are two ways. By default the server has a small page, which fetches the trace, opens the UI at
// a click and posts the trace to it. Or the server has the files of a copy of the UI, which fetches the trace from where
// it came.
package browser

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Options say what is handed over.
type Options struct {
	Name      string // of the trace, for people
	UI        UI
	View      View
	Page      bool          // there is no UI: the trace is a page of HTML that needs nothing else
	Port      int           // 0: any that is free
	Patience  time.Duration // the longest time without a request
	Answer    time.Duration // the time in which the UI should answer the page
	Offline   string        // what a person can do without the UI
	Unreached func()        // is called when the page has found out that its browser does not reach the UI; may be nil
	Delivered func()        // is called when a browser has the trace, while UI.Folder is served on; may be nil
}

// ErrNobody says that nobody came for the trace.
var ErrNobody = errors.New("nobody has opened the trace")

// A Server serves one trace.
type Server struct {
	o     Options
	token string
	trace io.ReaderAt
	size  int64
	door  door
	files map[string]file // of the page, by name
	ui    *os.Root        // Options.UI.Folder, nil without
	http  http.Server

	delivered chan struct{} // gets a value when somebody has the trace
	seen      chan struct{} // gets a value while somebody is served
	unreached chan struct{} // gets a value when the page does not reach the UI
	failed    chan error    // gets the error that ends the server
	slots     chan struct{} // has a value for each connection that has shown the token
	redirect  string        // a folder with a file that leads to the address, "" without
}

// A file is a part of the page.
type file struct {
	kind    string
	content []byte
}

//go:embed page
var page embed.FS

// Listen opens the port. A trace has size bytes.
func Listen(trace io.ReaderAt, size int64, o Options) (*Server, error) {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", o.Port))
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, token: rand.Text(), trace: trace, size: size, door: door{Listener: l, wait: headTime},
		slots: make(chan struct{}, connections), delivered: make(chan struct{}, 1),
		seen: make(chan struct{}, 1), unreached: make(chan struct{}, 1), failed: make(chan error, 1)}
	s.http = http.Server{Handler: http.HandlerFunc(s.serve), DisableGeneralOptionsHandler: true, ConnContext: withConn,
		MaxHeaderBytes: headBytes, ReadTimeout: headTime, WriteTimeout: pieceTime, ErrorLog: log.New(io.Discard, "", 0)}
	s.http.SetKeepAlivesEnabled(false)
	if s.o.Port = l.Addr().(*net.TCPAddr).Port; o.UI.Folder != "" {
		s.ui, err = os.OpenRoot(o.UI.Folder)
	} else {
		err = s.fillPage()
	}
	return s, err
}

// fillPage makes the files of the page.
func (s *Server) fillPage() error {
	about, err := json.Marshal(map[string]any{
		"title": s.o.Name, "size": s.size, "ui": s.o.UI.address(s.o.View, ""), "origin": s.o.UI.Origin,
		"answer": s.o.Answer.Milliseconds(), "offline": s.o.Offline})
	s.files = map[string]file{"about.json": {"application/json", about}}
	for name, of := range map[string]struct{ file, kind string }{
		"":         {"index.html", "text/html; charset=utf-8"},
		"open.css": {"open.css", "text/css; charset=utf-8"},
		"open.js":  {"open.js", "text/javascript; charset=utf-8"},
	} {
		content, failed := page.ReadFile("page/" + of.file)
		err = errors.Join(err, failed)
		s.files[name] = file{of.kind, content}
	}
	return err
}

// Port is the port of the server.
func (s *Server) Port() int { return s.o.Port }

// Address is what a browser has to open.
func (s *Server) Address() string {
	here := fmt.Sprintf("http://127.0.0.1:%d/%s/", s.o.Port, s.token)
	if s.ui != nil {
		return UI{Address: here}.address(s.o.View, here+s.traceName())
	}
	return here
}

// traceName is the name under which the trace is served. A UI that fetches the trace shows its last part.
func (s *Server) traceName() string {
	switch {
	case s.o.Page:
		return ""
	case s.ui == nil:
		return "trace"
	}
	return "trace/" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, s.o.Name)
}

// Run serves until the browser has the trace. It returns ErrNobody if nobody came for it, and the
// context's error when that ends. The files of a UI are served on until nobody has asked for one for
// Options.Patience, or the context ends.
func (s *Server) Run(ctx context.Context) error {
	go func() { report(s.failed, s.http.Serve(&s.door)) }()
	patience, arrived := time.NewTimer(s.o.Patience), false
	defer s.stop()
	for {
		select {
		case <-s.delivered:
			if s.ui == nil {
				return nil
			}
			if arrived = true; s.o.Delivered != nil {
				s.o.Delivered()
			}
		case <-ctx.Done():
			if arrived {
				return nil
			}
			return ctx.Err()
		case err := <-s.failed:
			return err
		case <-s.unreached:
			if s.o.Unreached != nil {
				s.o.Unreached()
			}
		case <-s.seen:
			patience.Reset(s.o.Patience)
		case <-patience.C:
			if arrived {
				return nil
			}
			return ErrNobody
		}
	}
}

// stop closes all connections, and removes what Launch made.
func (s *Server) stop() {
	s.door.shut.Store(true)
	_ = s.http.Close() // an answer that is cut off has no other remedy
	if s.ui != nil {
		_ = s.ui.Close() // it was read from
	}
	if s.redirect != "" {
		_ = os.RemoveAll(s.redirect) // a file that stays leads nowhere
	}
}

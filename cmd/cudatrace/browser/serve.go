package browser

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	connections  = 16              // that have shown the token, at the same time
	mostUnproven = 64              // connections that have not
	headBytes    = 16 << 10        // of a request
	headTime     = 5 * time.Second // for a request
	pieceTime    = time.Minute     // for an answer, or a piece of the trace
	pieceBytes   = 1 << 20
)

// report passes a value on, unless one waits already.
func report[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Cache-Control":                "no-store",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer", // the address of the page has the token
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	name, err := s.wanted(r)
	if err == nil {
		s.door.known(connOf(r.Context()))
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		report(s.seen, struct{}{})
		if s.ui != nil {
			err = s.answerUI(w, r, name)
		} else {
			err = s.answer(w, r, name)
		}
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		http.Error(w, "cudatrace: "+refused.text, refused.status)
	}
}

// A refusal is an answer without a file. Its text is for the person in front of the browser.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// wanted returns the name of the file that is asked for, if the request is for us and shows the token.
func (s *Server) wanted(r *http.Request) (string, error) {
	if r.ContentLength != 0 {
		return "", refuse(http.StatusBadRequest, "nothing can be sent here")
	}
	if err := checkHost(r.Host); err != nil {
		return "", err
	}
	given, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
		return "", refuse(http.StatusNotFound, "nothing is here: the address is longer, take all of it")
	}
	return name, nil
}

// checkHost refuses requests for another machine: another site can give its own name our
// address, and would then count as of the same origin (DNS rebinding). A tunnel may have another port.
func checkHost(of string) error {
	host, port, err := net.SplitHostPort(of)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil ||
		host != "127.0.0.1" && !strings.EqualFold(host, "localhost") && host != "::1" {
		return refuse(http.StatusForbidden, "this server is 127.0.0.1 or localhost, with a port, and nothing else")
	}
	return nil
}

// checkOrigin refuses requests that a page of another origin makes.
func checkOrigin(r *http.Request) error {
	if of := r.Header["Origin"]; len(of) > 1 || len(of) == 1 && of[0] != "http://"+r.Host {
		return refuse(http.StatusForbidden, "this server is not for pages of another origin")
	}
	return nil
}

// answer answers a request for a file, or returns a refusal or the error of the connection.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, name string) error {
	if err := checkOrigin(r); err != nil {
		return err
	}
	if r.Method != http.MethodGet {
		return refuse(http.StatusMethodNotAllowed, "only GET is answered")
	}
	switch name {
	case s.traceName():
		return s.deliver(w, r)
	case "unreached":
		report(s.unreached, struct{}{})
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	f, ok := s.files[name]
	if !ok {
		return refuse(http.StatusNotFound, "there is no such file")
	}
	w.Header().Set("Content-Security-Policy", fmt.Sprintf(policy, s.o.UI.Origin))
	w.Header().Set("Content-Type", f.kind)
	_, err := w.Write(f.content)
	return err
}

// answerUI answers a request of a UI that is served here. It has a policy of its own.
func (s *Server) answerUI(w http.ResponseWriter, r *http.Request, name string) error {
	if err := checkOrigin(r); err != nil {
		return err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return refuse(http.StatusMethodNotAllowed, "only GET is answered")
	}
	if name == s.traceName() {
		return s.deliver(w, r)
	}
	if name == "" {
		name = uiPage
	}
	f, err := s.ui.Open(name)
	if err != nil {
		return refuse(http.StatusNotFound, "the folder of the UI has no such file")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return refuse(http.StatusNotFound, "the folder of the UI has no such file")
	}
	http.ServeContent(w, r, name, info.ModTime(), f)
	return nil
}

// policy lets the page load and fetch its own files, and look whether the UI can be reached. No other page can show it
// in a frame.
const policy = "default-src 'none'; script-src 'self'; connect-src 'self' %s; style-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// deliver writes the trace. It has been delivered when the other end has read all of it and closes the
// connection.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	if s.o.Page {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'") // beside the page's own
	}
	w.Header().Set("Content-Length", strconv.FormatInt(s.size, 10))
	control := http.NewResponseController(w)
	piece := make([]byte, min(s.size, pieceBytes))
	for at := int64(0); at < s.size; at += int64(len(piece)) {
		report(s.seen, struct{}{})
		piece = piece[:min(s.size-at, pieceBytes)]
		if n, err := s.trace.ReadAt(piece, at); n < len(piece) {
			if errors.Is(err, io.EOF) {
				err = errors.New("it became shorter meanwhile")
			}
			report(s.failed, fmt.Errorf("%s cannot be read: %w", s.o.Name, err))
			return err
		}
		err := control.SetWriteDeadline(time.Now().Add(pieceTime))
		if err == nil {
			_, err = w.Write(piece)
		}
		if err != nil {
			return err
		}
	}
	err := control.Flush()
	if err == nil {
		c := connOf(r.Context())
		c.wait, c.arrived = pieceTime, func() { report(s.delivered, struct{}{}) }
	}
	return err
}

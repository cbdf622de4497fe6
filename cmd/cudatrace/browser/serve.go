package browser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

const (
	connections = 16              // that have shown the secret, at the same time
	strangers   = 64              // connections that have not
	headTime    = 5 * time.Second // for the head of a request
	pieceTime   = time.Minute     // for an answer, or a piece of the trace
	pieceBytes  = 1 << 20
)

// accept takes connections until the server is stopped.
func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			report(s.failed, err)
			return
		}
		if !s.admit(c) {
			return
		}
		go func() {
			defer s.end(c)
			s.serve(c)
		}()
	}
}

// admit notes an open connection, unless the server has been stopped. Of too many strangers the oldest has to go: a browser
// sends its request at once.
func (s *Server) admit(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close() // nothing was said on it
		return false
	}
	if len(s.strangers) == strangers {
		_ = s.strangers[0].Close() // its handler ends
		s.strangers = s.strangers[1:]
	}
	s.strangers = append(s.strangers, c)
	s.open[c] = true
	s.handlers.Add(1)
	return true
}

// known takes a connection from the strangers.
func (s *Server) known(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers = slices.DeleteFunc(s.strangers, func(other net.Conn) bool { return other == c })
}

func (s *Server) end(c net.Conn) {
	s.known(c)
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	_ = c.Close() // what was written has arrived, or is given up
	s.handlers.Done()
}

// stop closes all connections, and removes what Launch made.
func (s *Server) stop() {
	s.mu.Lock()
	s.closed = true
	_ = s.listener.Close() // nothing was written to it
	for c := range s.open {
		_ = c.Close() // an answer that is cut off has no other remedy
	}
	s.mu.Unlock()
	s.handlers.Wait()
	if s.redirect != "" {
		_ = os.RemoveAll(s.redirect) // a file that stays leads nowhere
	}
}

// report passes a value on, unless one waits already.
func report[T any](to chan T, v T) {
	select {
	case to <- v:
	default:
	}
}

// serve answers the request of a connection.
func (s *Server) serve(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(s.headTime)) // fails only if c is closed: then reading fails
	q, err := readRequest(c)
	name := ""
	if err == nil {
		name, err = q.wanted(s.token)
	}
	if err == nil {
		s.known(c)
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		_ = c.SetDeadline(time.Now().Add(pieceTime)) // fails only if c is closed: then writing fails
		err = s.answer(c, &q, name)
	}
	var refused *refusal
	if errors.As(err, &refused) {
		_ = s.send(c, refused.status, "text/plain; charset=utf-8", []byte("cudatrace: "+refused.text+"\n")) // a stranger may not want it
	}
}

// answer answers a request for a file, or returns a refusal or the error of the connection.
func (s *Server) answer(c net.Conn, q *request, name string) error {
	report(s.seen, struct{}{})
	if s.o.Direct {
		return s.direct(c, q, name)
	}
	if err := q.checkOrigin("http://" + q.host); err != nil {
		return err
	}
	if q.method != "GET" {
		return refuse(405, "only GET is answered")
	}
	if name == s.traceName() {
		return s.deliver(c)
	}
	f, ok := s.files[name]
	if !ok {
		return refuse(404, "there is no such file")
	}
	return s.send(c, 200, f.kind, f.content, policy)
}

// policy lets the page load and fetch its own files, and nothing else. No other page can show it in a
// frame.
const policy = "Content-Security-Policy: default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// direct answers the UI. A browser asks first whether a page of the network may talk to this machine.
func (s *Server) direct(c net.Conn, q *request, name string) error {
	if q.header.Get("Origin") == "" {
		return refuse(403, "this is for %s, which fetches the trace itself", s.o.UI.Origin)
	}
	if err := q.checkOrigin(s.o.UI.Origin); err != nil {
		return err
	}
	if name != s.traceName() {
		return refuse(404, "there is no such file")
	}
	allowed := []string{"Access-Control-Allow-Origin: " + s.o.UI.Origin, "Vary: Origin"}
	switch q.method {
	case "GET":
		return s.deliver(c, allowed...)
	case "OPTIONS":
		return s.send(c, 204, "", nil, append(allowed, "Access-Control-Allow-Methods: GET", "Access-Control-Allow-Private-Network: true")...)
	}
	return refuse(405, "only GET is answered")
}

// send writes a small answer.
func (s *Server) send(c net.Conn, status int, kind string, content []byte, fields ...string) error {
	if kind != "" {
		fields = append(fields, "Content-Type: "+kind)
	}
	_, err := c.Write(append([]byte(head(status, int64(len(content)), fields...)), content...))
	if err != nil {
		return err
	}
	return finish(c)
}

// deliver writes the trace. It has been delivered when the other end has read all of it and closes the
// connection.
func (s *Server) deliver(c net.Conn, fields ...string) error {
	_, err := c.Write([]byte(head(200, s.size, append(fields, "Content-Type: application/octet-stream")...)))
	piece := make([]byte, min(s.size, pieceBytes))
	for at := int64(0); err == nil && at < s.size; at += int64(len(piece)) {
		report(s.seen, struct{}{})
		piece = piece[:min(s.size-at, pieceBytes)]
		if n, failed := s.trace.ReadAt(piece, at); n < len(piece) {
			if errors.Is(failed, io.EOF) {
				failed = errors.New("it became shorter meanwhile")
			}
			err = fmt.Errorf("%s cannot be read: %w", s.o.Name, failed)
			report(s.failed, err)
			return err
		}
		_ = c.SetDeadline(time.Now().Add(pieceTime)) // fails only if c is closed: then writing fails
		_, err = c.Write(piece)
	}
	if err == nil {
		err = finish(c)
	}
	if err == nil {
		report(s.delivered, struct{}{})
	}
	return err
}

// finish waits until the other end has read everything and closes the connection. To close it before
// would lose what is on the way.
func finish(c net.Conn) error {
	err := c.(*net.TCPConn).CloseWrite()
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(c, headBytes))
	}
	return err
}

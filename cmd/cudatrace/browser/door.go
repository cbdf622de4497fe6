package browser

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A door is the listener of a Server. Of too many connections that have not shown the token it closes the oldest.
type door struct {
	net.Listener
	shut atomic.Bool   // the server ends
	wait time.Duration // for the other end of a connection, which is to close it

	mu       sync.Mutex
	unproven []*conn // those that have not shown the token, the oldest first
}

// A conn is a connection to a Server.
type conn struct {
	*net.TCPConn
	door    *door
	wait    time.Duration // as that of the door, unless it got the trace
	arrived func()        // is called when the other end has everything, nil: nobody wants to know
}

// Accept takes the next connection. A browser sends its request at once, so the oldest is the first to go.
func (d *door) Accept() (net.Conn, error) {
	inner, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: inner.(*net.TCPConn), door: d, wait: d.wait}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.unproven) == mostUnproven {
		_ = d.unproven[0].TCPConn.Close() // its handler ends
		d.unproven = d.unproven[1:]
	}
	d.unproven = append(d.unproven, c)
	return c, nil
}

// known takes a connection from those that have not shown the token.
func (d *door) known(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unproven = slices.DeleteFunc(d.unproven, func(other *conn) bool { return other == c })
}

// Close waits until the other end has read everything and closes the connection. To close it before would lose what is
// on the way. A server that ends does not wait.
func (c *conn) Close() error {
	defer c.door.known(c)
	if !c.door.shut.Load() && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(c.wait)) // fails only if c is closed: then reading fails
		if _, err := io.Copy(io.Discard, io.LimitReader(c.TCPConn, headBytes)); err == nil && c.arrived != nil {
			c.arrived()
		}
	}
	return c.TCPConn.Close()
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

// withConn adds its connection to the context of a request.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of a request.
func connOf(ctx context.Context) *conn { return ctx.Value(connKey{}).(*conn) }

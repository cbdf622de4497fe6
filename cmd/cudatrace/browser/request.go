package browser

import (
	"bufio"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
)

// The server speaks the part of HTTP/1.1 that a page needs to fetch a few files: GET without a body,
// one request a connection. Package net/http would make the program larger by a third.

// headBytes is the largest head of a request.
const headBytes = 16 << 10

// A request is the head of an HTTP request.
type request struct {
	method string
	path   string
	host   string
	header textproto.MIMEHeader
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

// readRequest reads the head of a request.
func readRequest(from io.Reader) (request, error) {
	r := textproto.NewReader(bufio.NewReader(io.LimitReader(from, headBytes)))
	line, err := r.ReadLine()
	if err != nil {
		return request{}, err
	}
	words := strings.Split(line, " ")
	if len(words) != 3 || !strings.HasPrefix(words[1], "/") || words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0" {
		return request{}, refuse(400, "this is no request that a browser sends")
	}
	q := request{method: words[0], path: words[1]}
	if q.header, err = r.ReadMIMEHeader(); err != nil {
		return request{}, refuse(400, "the head of the request is malformed, or too long")
	}
	if hosts := q.header["Host"]; len(hosts) == 1 {
		q.host = hosts[0]
	}
	if q.header.Get("Transfer-Encoding") != "" || q.header.Get("Content-Length") != "" {
		return request{}, refuse(400, "nothing can be sent here")
	}
	return q, nil
}

// wanted returns the name of the file that is asked for, if the request is for us and shows the token.
func (q *request) wanted(token string) (string, error) {
	if err := q.checkHost(); err != nil {
		return "", err
	}
	return q.file(token)
}

// checkHost refuses requests for another machine: a page of a stranger can give its own name our
// address, and would then count as of the same origin (DNS rebinding). A tunnel may have another port.
func (q *request) checkHost() error {
	host, port, err := net.SplitHostPort(q.host)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil ||
		host != "127.0.0.1" && !strings.EqualFold(host, "localhost") && host != "::1" {
		return refuse(403, "this server is 127.0.0.1 or localhost, with a port, and nothing else")
	}
	return nil
}

// checkOrigin refuses requests that a page of another origin makes.
func (q *request) checkOrigin(origin string) error {
	if of := q.header["Origin"]; len(of) > 1 || len(of) == 1 && of[0] != origin {
		return refuse(403, "this server is not for pages of another origin")
	}
	return nil
}

// file returns the name of the file that is asked for, if the path begins with the token.
func (q *request) file(token string) (string, error) {
	given, name, ok := strings.Cut(strings.TrimPrefix(q.path, "/"), "/")
	if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
		return "", refuse(404, "nothing is here: the address is longer, take all of it")
	}
	return name, nil
}

// reasons are the words behind the codes of answers.
var reasons = map[int]string{200: "OK", 204: "No Content", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}

// head is the head of an answer with a body of a size.
func head(status int, size int64, fields ...string) string {
	lines := append([]string{
		fmt.Sprintf("HTTP/1.1 %d %s", status, reasons[status]),
		fmt.Sprintf("Content-Length: %d", size),
		"Connection: close",
		"Cache-Control: no-store",
		"X-Content-Type-Options: nosniff",
		"Referrer-Policy: no-referrer", // the address of the page has the token
		"Cross-Origin-Resource-Policy: same-origin",
	}, fields...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

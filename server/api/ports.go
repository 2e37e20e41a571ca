package api

import "time"

// HeaderShare is the header with the secret of a share.
const HeaderShare = "Sandbox-Share"

// A Port is a TCP port at which a program inside a sandbox listens.
type Port struct {
	Address string `json:"address" doc:"The address inside that it is bound to; 0.0.0.0 and :: are all"`
	Port    int    `json:"port" min:"1" max:"65535"`
	PID     int    `json:"pid,omitempty" doc:"Of the program inside, where the sandbox can tell"`
	Command string `json:"command,omitempty" doc:"The program with its arguments, or the beginning of them"`
}

// A PortList holds the ports at which programs listen, by number.
type PortList struct {
	Items []Port `json:"items"`
}

// A SharePort asks for a link to a port.
type SharePort struct {
	Port       int   `json:"port" required:"true" min:"1" max:"65535"`
	TTLSeconds int64 `json:"ttlSeconds,omitempty" min:"0" max:"2592000" doc:"How long it is in force; 0 is an hour, and 30 days are the most"`
	Public     bool  `json:"public,omitempty" doc:"The address alone is enough: it holds 128 random bits, and pages and logs may keep it"`
}

// A Share lets those who have its link connect to one port of a sandbox.
type Share struct {
	ID      string    `json:"id"`
	Sandbox string    `json:"sandbox"`
	Port    int       `json:"port" doc:"0 is every port"`
	Host    string    `json:"host" doc:"The host name, without the port of the server"`
	Public  bool      `json:"public"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// A ShareList holds the shares of a sandbox that are in force, the oldest first.
type ShareList struct {
	Items []Share `json:"items"`
}

// A NewShare is a share with its secret, which no other answer has.
type NewShare struct {
	Share  Share  `json:"share"`
	Secret string `json:"secret,omitempty" doc:"Goes into the header Sandbox-Share, or is the password of CONNECT (Proxy-Authorization: Bearer); absent where the share is public"`
	URL    string `json:"url" doc:"The link, with the secret; the port of the server is that by which this request came"`
}

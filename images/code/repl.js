// Evaluates cells for the JavaScript kernel with node's own REPL, which knows
// await at the top level and keeps what one cell declares for the next.
//
// A cell comes as {"code"} on the socket SANDBOX_CODE_FD, one JSON value a line.
// The answers are {"display": {mediaType: data}} any number of times and then
// {"done": true, "text"} or {"error": {name, value, stack}}.
'use strict';
const net = require('net');
const repl = require('repl');
const util = require('util');
const { PassThrough, Writable } = require('stream');

const socket = new net.Socket({ fd: Number(process.env.SANDBOX_CODE_FD), readable: true, writable: true });
delete process.env.SANDBOX_CODE_FD;
const send = (value) => socket.write(JSON.stringify(value) + '\n');

const server = repl.start({
  input: new PassThrough(),
  output: new Writable({ write(chunk, encoding, done) { done(); } }),
  prompt: '', terminal: false, useGlobal: true, breakEvalOnSigint: true,
});
server.on('exit', () => process.exit(0));

// display shows a value: an object of media types and their data.
global.display = (data) => {
  if (data === null || typeof data !== 'object') data = { 'text/plain': util.inspect(data) };
  send({ display: data });
};

let finish = null; // of the cell that runs
const fail = (e) => {
  const own = e instanceof Error || (e && typeof e === 'object' && typeof e.stack === 'string');
  return { error: {
    name: own ? String(e.name || 'Error') : 'Error',
    value: own ? String(e.message) : util.inspect(e),
    stack: own ? String(e.stack) : 'Uncaught ' + util.inspect(e),
  } };
};
const interrupted = () => Object.assign(new Error('the cell was interrupted'), { name: 'KeyboardInterrupt' });
const onInterrupt = () => { if (finish) finish(fail(interrupted())); };
process.on('SIGINT', onInterrupt);
// The REPL's own listener ends node at a second interrupt.
server.removeAllListeners('SIGINT');
// withoutListeners calls f, which watches for SIGINT by itself. When the last
// listener of a signal goes, node gives the signal its own action back, which
// ends the process. The REPL takes the listeners away after it has begun to
// watch, so they have to be gone before. They are added anew afterwards, also
// those that f has added, because the REPL restores the action from before.
const withoutListeners = (f) => {
  const before = process.rawListeners('SIGINT');
  process.removeAllListeners('SIGINT');
  try {
    f();
  } finally {
    const after = process.rawListeners('SIGINT');
    process.removeAllListeners('SIGINT');
    for (const listener of [...before, ...after]) process.on('SIGINT', listener);
  }
};
process.on('unhandledRejection', (e) => process.stderr.write(fail(e).error.stack + '\n'));
const uncaught = (e) => {
  if (e && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') e = interrupted();
  if (finish) finish(fail(e)); else process.stderr.write(fail(e).error.stack + '\n');
};
// What a cell throws goes to the REPL's domain, and not to its callback.
server._domain.removeAllListeners('error');
server._domain.on('error', uncaught);
process.removeAllListeners('uncaughtException');
process.on('uncaughtException', uncaught);

const run = (code) => new Promise((resolve) => {
  finish = (answer) => { finish = null; resolve(answer); };
  const mine = finish;
  withoutListeners(() => server.eval(code.endsWith('\n') ? code : code + '\n', server.context, 'cell', async (error, value) => {
    if (finish !== mine) return; // interrupted before
    if (error && error.name === 'Recoverable' || error instanceof repl.Recoverable) error = error.err;
    if (error && (error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED')) error = interrupted();
    if (error) return mine(fail(error));
    try {
      value = await value;
      if (finish !== mine) return;
      mine({ done: true, text: value === undefined ? null : util.inspect(value) });
    } catch (e) {
      if (finish === mine) mine(fail(e));
    }
  }));
});

let pending = '';
let turn = Promise.resolve();
socket.setEncoding('utf8');
socket.on('data', (text) => {
  const lines = (pending + text).split('\n');
  pending = lines.pop();
  for (const line of lines) turn = turn.then(() => run(JSON.parse(line).code)).then(send);
});
socket.on('end', () => process.exit(0));

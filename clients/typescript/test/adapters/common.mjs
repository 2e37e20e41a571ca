// What the tests of the adapters share. SANDBOX_SERVER and SANDBOX_TOKEN name the daemon
// and SANDBOX_OTHER_TOKEN is that of another tenant.
import assert from 'node:assert/strict'

/** Waits until something holds. */
export async function until(what, holds) {
  for (let i = 0; i < 300; i++) {
    if (await holds()) return
    await new Promise(resolve => setTimeout(resolve, 50))
  }
  assert.fail(`it never came: ${what}`)
}

/** The text of a stream of bytes. */
export async function text(stream) {
  const pieces = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

/** An address at which no daemon listens. */
export const away = 'tcp:127.0.0.1:1'

/** Returns what a call throws. */
export async function thrown(call) {
  try {
    await call()
  } catch (error) {
    return error
  }
  assert.fail('it threw nothing')
}

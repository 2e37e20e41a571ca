// A chat model of LangChain that follows a script: each step is a call of a tool, with its
// name and its input, or a text, or a function of the messages that returns one.
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage } from '@langchain/core/messages'

export class ScriptedModel extends BaseChatModel {
  constructor(script) { super({}); this.script = script; this.at = 0 }
  _llmType() { return 'scripted' }
  bindTools() { return this }
  async _generate(messages) {
    let step = this.script[this.at++] ?? 'done'
    if (typeof step == 'function') step = step(messages)
    const message = typeof step == 'string' ? new AIMessage(step) : new AIMessage({ content: '', tool_calls: [{ id: `call-${this.at}`, name: step[0], args: step[1], type: 'tool_call' }] })
    return { generations: [{ message, text: message.text ?? '' }] }
  }
}

export const model = new ScriptedModel([['execute', { command: 'echo $((6 * 7))' }], messages => `it is ${messages.at(-1).text.split('\n')[0]}`])

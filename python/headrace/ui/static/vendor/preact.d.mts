// Ours: what the page uses of Preact, for the checker of types.
export function h(...parts: any[]): any;
export function render(node: any, root: Element): void;
export class Component<Props = any, State = any> {
  constructor(props: Props);
  props: Props;
  state: State;
  setState(change: Partial<State>): void;
}

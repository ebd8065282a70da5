// Ours: what the page uses of uPlot, for the checker of types.
export default class uPlot {
  constructor(options: any, data: any[], box: Element);
  setData(data: any[]): void;
  setSize(size: { width: number; height: number }): void;
  destroy(): void;
}
